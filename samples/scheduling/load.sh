#!/usr/bin/env bash
# Load the flights that are new. Ends with 0 if everything was read and committed.
set -euo pipefail # with pipefail, a failure of the tap is one of the script
cd "$(dirname "$0")"
export PATH="$PWD/.venv/bin:$PATH" # where tap-flights and target-spark are installed
touch state.jsonl                  # the first run begins with an empty state
tap-flights --config tap.json --state state.jsonl | target-spark --config target.json >> state.jsonl
