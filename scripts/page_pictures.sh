#!/usr/bin/env bash
# Pictures of the page by a headless Chromium: each section by itself, wide (1280) and narrow (390); the first one in dark
# colours too; and the page as it is printed.
#   bash scripts/page_pictures.sh [PAGE] [FOLDER]      (default results/index.html, page-pictures)
# Skipped with one line where there is no browser. SECTIONS and HEIGHT say what and how much to take.
set -eu
page=${1:-results/index.html}
folder=${2:-page-pictures}
sections=${SECTIONS:-summary plfl fedsda fnst fedstyle fedtransfer classify benchmarks}
height=${HEIGHT:-7000}

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

section() { # a copy of the page with that section alone: a picture begins at the top and is only so tall
  local hidden="<style>article:not(:has(> #$1)) { display: none }</style>"
  sed "s|</head>|$hidden</head>|" "$page" >"$profile/page.html"
}

take() { # take NAME FLAGS…
  local name=$1 target
  target=$(realpath "$folder")/$name
  shift
  case $name in
    *.pdf) set -- --print-to-pdf="$target" --no-pdf-header-footer "$@" ;;
    *) set -- --screenshot="$target" "$@" ;;
  esac
  rm -f "$target"
  timeout 120 "$browser" --headless --no-sandbox --disable-gpu --hide-scrollbars --no-first-run \
    --user-data-dir="$profile/browser" --virtual-time-budget=3000 "$@" "file://$profile/page.html" \
    >"$profile/log" 2>&1 || true
  [ -s "$target" ] || { tail -3 "$profile/log" >&2; echo "page_pictures: $browser made no $name" >&2; exit 1; }
  echo "$folder/$name"
}

for name in $sections; do
  section "$name"
  take "wide-$name.png" --window-size="1280,$height"
  take "narrow-$name.png" --window-size="390,$height"
done
section "${sections%% *}"
take dark.png --window-size="1280,$height" --blink-settings=preferredColorScheme=0
cp "$page" "$profile/page.html"
take page.pdf
