#!/usr/bin/env bash
# Set-up on first use, then lint, types and the tests. Arguments go to pytest: bash run_tests.sh tests/engine -k worker;
# bash run_tests.sh -m slow for what takes long.
set -eu
cd "$(dirname "$0")"
. scripts/setup.sh requirements-dev.txt
if [ $# -eq 0 ]; then
  "$PYTHON" -m ruff check .
  "$PYTHON" -m ruff format --check .
  "$PYTHON" -m mypy
  # Three files of tests at a time: many of them wait. What a file has built, all of its tests use.
  set -- --numprocesses 3 --dist loadfile
fi
exec "$PYTHON" -m pytest "$@"
