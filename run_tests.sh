#!/usr/bin/env bash
# Set-up on first use, then lint, types and the tests. Arguments go to pytest: bash run_tests.sh tests/engine -k worker;
# bash run_tests.sh -m slow for what takes long.
set -eu
cd "$(dirname "$0")"
. scripts/setup.sh requirements-dev.txt
[ $# -eq 0 ] || exec "$PYTHON" -m pytest "$@"

"$PYTHON" -m ruff check .
"$PYTHON" -m ruff format --check .
"$PYTHON" -m mypy
# Three files of tests at a time: many of them wait. What a file has built, all of its tests use; tests/conftest.py puts
# the long ones first. A process that crashes is not replaced: pytest-xdist would wait for ever for what it had been given.
log=$(mktemp)
trap 'rm -f "$log"' EXIT
for attempt in 1 2; do
  set +e
  "$PYTHON" -m pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder --max-worker-restart 0 2>&1 | tee "$log"
  status=${PIPESTATUS[0]}
  set -e
  # TensorFlow's own threads have been seen to crash (once in many runs, without a trace of ours): then, and only then,
  # everything once more.
  [ "$attempt" -eq 1 ] && grep -q "^worker '.*' crashed while running" "$log" || break
  echo "run_tests.sh: a process of the tests crashed ($(grep -m 1 'crashed while running' "$log")); all tests once more"
done
exit "$status"
