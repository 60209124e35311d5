import sys

from tffapps import cli
from tffapps.fedtransfer import APP

sys.exit(cli.main(APP))
