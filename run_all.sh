#!/usr/bin/env bash
# Set-up on first use, a check of the machine, then every application. Flags go to the applications:
#   bash run_all.sh --profile smoke
set -eu
cd "$(dirname "$0")"
. scripts/setup.sh requirements.txt
"$PYTHON" -m tffapps.doctor
for app in classify plfl fedsda fnst fedstyle fedtransfer; do
  "$PYTHON" -m "tffapps.$app" "$@"
done
