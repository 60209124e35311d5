from tffapps import cli
from tffapps.fedsda import APP

raise SystemExit(cli.main(APP))
