#!/bin/sh
# Writes requirements.lock (what a user runs) and requirements-dev.lock (what this repository's
# commands need) from the ranges in pyproject.toml. $1 is the uv to use. No address of an
# index goes into the files, so they install from whatever index pip is set up for.
set -eu
uv=$1

compile() {
  out=$1
  shift
  "$uv" pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.10 \
    --no-python-downloads --no-emit-index-url --no-emit-package tap-core-sdk --no-annotate \
    --custom-compile-command "make lock" "$@" --output-file "$out"
}

compile requirements.lock --extra spark
compile requirements-dev.lock --extra all --extra dev
