import sys

from tffapps import cli
from tffapps.fnst import APP

sys.exit(cli.main(APP))
