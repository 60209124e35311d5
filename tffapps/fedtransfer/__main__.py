from tffapps import cli
from tffapps.fedtransfer import APP

if __name__ == "__main__":
    raise SystemExit(cli.main(APP))
