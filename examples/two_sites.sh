#!/usr/bin/env bash
# A federation of two sites and a coordinator on this machine, from certificates to tables, beside the same in one process.
#   bash examples/two_sites.sh [FOLDER]      (two to five minutes; it listens on 127.0.0.1:9101 and 9102)
# Each site has a folder of its own, a worker in a network of its own, and a door that asks for a certificate.
set -eu
cd "$(dirname "$0")/.."
PYTHON=$(realpath -s "${PYTHON:-.venv/bin/python}")
place=${1:-$(mktemp -d)}
mkdir -p "$place"
[ -z "$(ls -A "$place")" ] || { echo "two_sites.sh: $place is not empty; name a new folder" >&2; exit 2; }
place=$(realpath "$place")
export PYTHONPATH=$PWD TF_CPP_MIN_LOG_LEVEL=3
sites=""
end_sites() {
  for site in $sites; do kill "$site" 2>/dev/null || true; done
  wait
  sites=""
}
trap end_sites EXIT

serve() { # both sites, each in its own folder with its own images: $1 is the folder's name
  for site in north:9101 south:9102; do
    name=${site%:*}
    (cd "$place/$name" && exec "$PYTHON" -m tffapps.site serve --data "$1" --name "$name" --listen "127.0.0.1:${site#*:}" \
      --cert "$certificates/$name.pem" --key "$certificates/$name.key" --ca "$certificates/ca.pem") >"$place/$name/log" 2>&1 &
    sites="$sites $!"
  done
  for name in north south; do
    for _ in $(seq 240); do
      grep -q listening "$place/$name/log" && break
      sleep 0.5
    done
    grep listening "$place/$name/log" || { cat "$place/$name/log" >&2; exit 1; }
  done
}

certificates=$place/certificates
echo "== certificates"
"$PYTHON" -m tffapps.site certs --names north,south -o "$certificates"
coordinator=(--cert "$certificates/coordinator.pem" --key "$certificates/coordinator.key" --ca "$certificates/ca.pem")
across=(--profile smoke --engine 127.0.0.1:9101,127.0.0.1:9102 "${coordinator[@]}")
"$PYTHON" -m examples.two_sites_data draw "$place"
cd "$place/server" # where the coordinator works; it has the server's X-rays and nothing of the sites

echo "== PLFL: each site prepares its X-rays, then serves them"
for name in north south; do
  (cd "$place/$name" && "$PYTHON" -m preprocessing.knee knees prepared)
done
"$PYTHON" -m tffapps.site describe --data "$place/north/prepared" --name north
serve prepared
"$PYTHON" -m tffapps.plfl "${across[@]}" --data knees.csv --results across
end_sites
echo "== PLFL in one process"
"$PYTHON" -m tffapps.plfl --profile smoke --poison= --data ../together/knees.csv --results one

echo "== FedSDA: sites measure their stains and align their patches when the coordinator asks"
serve patches
"$PYTHON" -m tffapps.fedsda "${across[@]}" --sides none,fedsda --results across
end_sites
echo "== what north wrote down"
grep -v "connected\|left after" "$place/north/log" | tail -n 8
echo "== FedSDA in one process"
"$PYTHON" -m tffapps.fedsda --profile smoke --sides none,fedsda --data ../together/patches.csv --results one

echo "== the same numbers?"
"$PYTHON" -m examples.two_sites_data compare across/plfl/comparison.csv one/plfl/comparison.csv
"$PYTHON" -m examples.two_sites_data compare across/fedsda/table2_optimisers.csv one/fedsda/table2_optimisers.csv
