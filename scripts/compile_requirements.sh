#!/usr/bin/env bash
# Compiles the pinned requirement files from pyproject.toml. Needs uv; run it only when a dependency changes.
# One version of every package for all supported Pythons ("fewest"), so that numbers do not depend on the Python.
set -eu
cd "$(dirname "$0")/.."
compile() { uv pip compile --quiet --universal --python-version 3.10 --fork-strategy fewest --no-header --no-annotate "$@" pyproject.toml; }
# With the hashes of what was published: pip installs these files and no others of the same name.
compile --generate-hashes -o requirements.txt
compile --generate-hashes --extra dev -c requirements.txt -o requirements-dev.txt
compile --generate-hashes --extra gpu -c requirements.txt -o requirements-gpu.txt
# What these add to requirements.txt, and nothing of it: they are installed beside it with --no-deps. requirements-export.txt
# is kept by hand: what onnxruntime says it needs for its own tools (sympy, coloredlogs) is not needed to run a network.
compile --extra mlflow -c requirements.txt | grep -vxFf <(sed -n 's/ \\$//p' requirements.txt) > requirements-mlflow.txt
