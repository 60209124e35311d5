from tffapps import cli
from tffapps.plfl import APP

raise SystemExit(cli.main(APP))
