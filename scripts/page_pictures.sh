#!/usr/bin/env bash
# Pictures of the page, wide and narrow, light and dark, and printed, by a headless Chromium:
#   bash scripts/page_pictures.sh [PAGE] [FOLDER]      (default results/index.html, page-pictures)
# Skipped with one line where there is no browser.
set -eu
page=${1:-results/index.html}
folder=${2:-page-pictures}

[ -f "$page" ] || { echo "page_pictures: no $page; \`python -m tffapps.report\` writes it" >&2; exit 2; }
browser=
for name in ${TFFAPPS_BROWSER:-chromium chromium-browser google-chrome google-chrome-stable}; do
  if command -v "$name" >/dev/null 2>&1; then browser=$name; break; fi
done
if [ -z "$browser" ]; then
  echo "page_pictures: skipped, no Chromium here (install the system's chromium, or name one: TFFAPPS_BROWSER=…)"
  exit 0
fi

mkdir -p "$folder"
profile=$(mktemp -d)
trap 'rm -rf "$profile"' EXIT
url=file://$(realpath "$page")

take() { # take NAME FLAGS…
  local name=$1 target
  shift
  target=$(realpath "$folder")/$name
  case $name in
    *.pdf) set -- --print-to-pdf="$target" --no-pdf-header-footer "$@" ;;
    *) set -- --screenshot="$target" "$@" ;;
  esac
  rm -f "$target"
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
    --user-data-dir="$profile" --virtual-time-budget=3000 "$@" "$url" >"$profile/log" 2>&1 || true
  [ -s "$target" ] || { tail -3 "$profile/log" >&2; echo "page_pictures: $browser made no $name" >&2; exit 1; }
  echo "$folder/$name"
}

take wide.png --window-size="1280,${HEIGHT:-16000}"
take wide-dark.png --window-size="1280,${HEIGHT:-16000}" --blink-settings=preferredColorScheme=0
take narrow.png --window-size="390,${HEIGHT:-16000}"
take page.pdf
