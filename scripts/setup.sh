# Makes .venv and installs pinned packages and the command `tffapps` into it. Sourced, not run:
#   . scripts/setup.sh requirements.txt [more-requirements.txt …]
# Does nothing when the pins have not changed. Afterwards $PYTHON is the environment's interpreter.
# The interpreter to build it with can be named: TFFAPPS_PYTHON=/path/to/python3.10

setup_fail() { echo "setup: $*" >&2; exit 2; }

setup_usable() { # is $1 a Python 3.10–3.11 that can make virtual environments?
  "$1" -c 'import sys, venv, ensurepip; sys.exit(not ((3, 10) <= sys.version_info[:2] <= (3, 11)))' >/dev/null 2>&1
}

setup_platform() {
  [ "$(uname -s)/$(uname -m)" = Linux/x86_64 ] ||
    setup_fail "TensorFlow Federated ships for Linux on x86-64 only; this is $(uname -s) on $(uname -m). Use a Linux machine, a container or WSL 2."
  grep -qw avx2 /proc/cpuinfo ||
    setup_fail "this processor lacks AVX2, which TensorFlow Federated's runtime needs. Use a machine from about 2015 or later."
}

setup_venv() { # a fresh .venv from the first interpreter that fits
  local candidate
  for candidate in ${TFFAPPS_PYTHON:-python3.11 python3.10 python3 python}; do
    if setup_usable "$candidate"; then
      "$candidate" -m venv --clear .venv || setup_fail "$candidate could not make .venv; is this folder writable?"
      return
    fi
  done
  [ -z "${TFFAPPS_PYTHON:-}" ] || setup_fail "TFFAPPS_PYTHON=$TFFAPPS_PYTHON is not a working Python 3.10–3.11 with venv."
  command -v uv >/dev/null 2>&1 ||
    setup_fail "no Python 3.10–3.11 with venv found. Install one (for example python3.11 and python3.11-venv), or install uv, which brings its own."
  uv venv --quiet --clear --seed --python 3.11 .venv || setup_fail "uv could not provide Python 3.11 (see its message above)."
}

setup_install() { # pip-install the pins in file $1
  local log=.venv/install.log free
  free=$(df -Pk . | awk 'NR==2 {print int($4 / 1024)}')
  [ "$free" -ge "${TFFAPPS_MIN_DISK_MB:-4000}" ] ||
    setup_fail "only $free MB free in $PWD; the packages need about 4000 MB. Free some space and run again."
  echo "setup: installing $1 into .venv (a few minutes the first time)" >&2
  if ! .venv/bin/python -m pip install --no-input --no-deps --disable-pip-version-check -r "$1" >"$log" 2>&1; then
    if grep -qE 'NewConnectionError|ConnectTimeout|NameResolutionError|Temporary failure in name|Network is unreachable|ProxyError' "$log"; then
      setup_fail "no network: the package index cannot be reached. Connect (or set PIP_INDEX_URL / HTTPS_PROXY) and run again; log: $log"
    elif grep -q 'No space left' "$log"; then
      setup_fail "the disk filled up while installing. Free about 4000 MB and run again; log: $log"
    fi
    setup_fail "installing $1 failed: $(grep -E '^ERROR' "$log" | tail -n 1); log: $log"
  fi
}

setup_write() { # the text $2 into the file $1, if it is not there
  [ "$(cat "$1" 2>/dev/null)" = "$2" ] || printf '%s\n' "$2" >"$1"
}

setup_command() { # `.venv/bin/tffapps` and, from every folder, `import tffapps`: this clone itself, nothing is copied
  local packages
  packages=$(echo .venv/lib/python3.*/site-packages)
  setup_write "$packages/tffapps.pth" "$PWD"
  # Read by sh first, then by Python: the path may be longer than a first line can be, and have spaces.
  setup_write .venv/bin/tffapps "#!/bin/sh
'''exec' \"$PWD/.venv/bin/python\" \"\$0\" \"\$@\"
' '''
import sys

from tffapps.__main__ import main

sys.exit(main())"
  [ -x .venv/bin/tffapps ] || chmod +x .venv/bin/tffapps
}

setup_platform
for setup_file in "$@"; do
  [ -f "$setup_file" ] || setup_fail "$setup_file is missing; is this a complete clone?"
  setup_stamp=".venv/.installed-$setup_file"
  if ! cmp -s "$setup_file" "$setup_stamp" || ! [ -x .venv/bin/python ]; then
    setup_usable .venv/bin/python || setup_venv
    setup_install "$setup_file"
    cp "$setup_file" "$setup_stamp" # last, so that an interrupted install is done again
  fi
done
setup_command
PYTHON=$PWD/.venv/bin/python
unset PYTHONDONTWRITEBYTECODE # without bytecode TensorFlow Federated takes three times as long to import
