#!/usr/bin/env bash
# A federation of two sites on this machine, from certificates to the table, beside the same federation in one process.
#   bash examples/two_sites.sh [FOLDER]
# Each site has a folder of its own, a worker that nothing on the network reaches, and a door that asks for a certificate.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-.venv/bin/python}
place=${1:-$(mktemp -d)}
mkdir -p "$place"
[ -z "$(ls -A "$place")" ] || { echo "two_sites.sh: $place is not empty; name a new folder" >&2; exit 2; }
export PYTHONPATH=$PWD TF_CPP_MIN_LOG_LEVEL=3
sites=""
trap 'for site in $sites; do kill "$site" 2>/dev/null || true; done; wait' EXIT

echo "== certificates"
"$PYTHON" -m tffapps.site certs --names north,south -o "$place/certificates"

echo "== each site has its own images"
"$PYTHON" - "$place" <<'DRAW'
import pathlib, shutil, sys
from tffapps.data.textures import write_textures

place = pathlib.Path(sys.argv[1])
write_textures(place / "all", per_class=20, size=32)
for name, client in (("north", "client_0"), ("south", "client_1")):
    shutil.copytree(place / "all" / client, place / name / name)
    shutil.move(place / "all" / client, place / "together" / name)
shutil.rmtree(place / "all")
DRAW

for site in north:9101 south:9102; do
  name=${site%:*}
  "$PYTHON" -m tffapps.site serve --data "$place/$name" --name "$name" --listen "127.0.0.1:${site#*:}" \
    --cert "$place/certificates/$name.pem" --key "$place/certificates/$name.key" --ca "$place/certificates/ca.pem" \
    > "$place/$name.log" 2>&1 &
  sites="$sites $!"
done
echo "== what they publish"
"$PYTHON" -m tffapps.site describe --data "$place/north" --name north
for name in north south; do
  for _ in $(seq 240); do
    grep -q "listening" "$place/$name.log" && break
    sleep 0.5
  done
  tail -n 1 "$place/$name.log"
done

flags="--profile smoke --methods fedavg,separate"
echo "== across the sites"
"$PYTHON" -m tffapps.classify $flags --engine 127.0.0.1:9101,127.0.0.1:9102 --results "$place/across" \
  --cert "$place/certificates/coordinator.pem" --key "$place/certificates/coordinator.key" --ca "$place/certificates/ca.pem"
echo "== the same images in one process"
"$PYTHON" -m tffapps.classify $flags --data "$place/together" --results "$place/one"

"$PYTHON" - "$place" <<'COMPARE'
import pathlib, sys
import pandas as pd

tables = [pd.read_csv(pathlib.Path(sys.argv[1]) / run / "classify" / "comparison.csv") for run in ("across", "one")]
metrics = ["accuracy", "macro_f1", "auroc"]
largest = (tables[0][metrics] - tables[1][metrics]).abs().max().max()
print(f"largest difference between the two tables: {largest:.2g}")
sys.exit(0 if largest < 1e-5 else 1)
COMPARE
