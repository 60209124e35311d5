#!/usr/bin/env bash
# Set-up on first use, then lint, types and the tests. Arguments go to pytest: bash run_tests.sh tests/engine -k worker
set -eu
cd "$(dirname "$0")"
. scripts/setup.sh requirements-dev.txt
if [ $# -eq 0 ]; then
  "$PYTHON" -m ruff check .
  "$PYTHON" -m ruff format --check .
  "$PYTHON" -m mypy
fi
exec "$PYTHON" -m pytest "$@"
