import sys

from tffapps import cli
from tffapps.fedsda import APP

sys.exit(cli.main(APP))
