from tffapps import cli
from tffapps.fedstyle import APP

raise SystemExit(cli.main(APP))
