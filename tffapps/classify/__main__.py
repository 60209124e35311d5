import sys

from tffapps import cli
from tffapps.classify import APP

sys.exit(cli.main(APP))
