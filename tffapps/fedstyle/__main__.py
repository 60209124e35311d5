import sys

from tffapps import cli
from tffapps.fedstyle import APP, query

sys.exit(query.main(sys.argv[2:]) if sys.argv[1:2] == ["query"] else cli.main(APP))
