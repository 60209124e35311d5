import sys

from tffapps import cli
from tffapps.fedstyle import APP

sys.exit(cli.main(APP))
