#!/usr/bin/env bash
# Load new flights. The exit code is 0 if everything was read and committed.
set -euo pipefail # with pipefail, the script also fails if only the tap fails
cd "$(dirname "$0")"
export PATH="$PWD/.venv/bin:$PATH" # tap-flights and target-spark are installed there
touch state.jsonl                  # the first run starts with an empty state
tap-flights --config tap.json --state state.jsonl | target-spark --config target.json >> state.jsonl
