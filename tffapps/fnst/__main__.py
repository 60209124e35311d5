from tffapps import cli
from tffapps.fnst import APP

raise SystemExit(cli.main(APP))
