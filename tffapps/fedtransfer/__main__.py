from tffapps import cli
from tffapps.fedtransfer import APP

raise SystemExit(cli.main(APP))
