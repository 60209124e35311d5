import sys

from tffapps import cli
from tffapps.plfl import APP

sys.exit(cli.main(APP))
