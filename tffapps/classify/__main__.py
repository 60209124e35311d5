from tffapps import cli
from tffapps.classify import APP

raise SystemExit(cli.main(APP))
