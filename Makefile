# One command each for what people do here. Everything is installed into .venv.
#
#   make demo      set everything up and run the main job: a tap into Spark tables, twice
#   make test      set everything up and pass the tests
#   make check     everything that must hold: format, lint, types, code rules, all tests
#   make thorough  the tests that make test leaves out: they take long or resemble others
#   make coverage  the tests again, with the branches that they leave out
#   make bench     set everything up and run the benchmarks beside other tools
#   make docs      build the documentation as a site, in build/site
#   make lock      write the lock files anew from the ranges in pyproject.toml
#   make audit     look up the locked packages and the jars in a feed of advisories
#
# PYTHON=/path/to/python3.12 chooses the interpreter; otherwise one that fits is looked for.

VENV    := .venv
PEERS   := .venv-peers
BIN     := $(VENV)/bin
PY      := $(BIN)/python
READY   := $(VENV)/.ready
DOCS    := .venv-docs
LOCKS   := requirements-uv.lock requirements-build.lock requirements-dev.lock samples/requirements.txt
PYTEST_ARGS ?=

# pip installs uv, and uv the rest. Every archive must have its hash in the lock file.
# Packages that are published as source only are built without isolation, with the packages of
# requirements-build.lock: no hashes are checked of packages that are fetched for an isolated build.
PIP     := pip install --quiet --disable-pip-version-check --no-deps --require-hashes \
           --only-binary=:all:
UV      := $(PY) scripts/run_uv.py
INSTALL := $(UV) pip install --quiet --no-deps --no-build-isolation
LOCKED  := $(INSTALL) --require-hashes
# --upgrade: `make lock` takes the newest versions; LOCK_ARGS= keeps those that are locked.
LOCK_ARGS ?= --upgrade
# Seconds of `make thorough` for each kind of input that is fuzzed.
FUZZ_SECONDS ?= 20
# Schedules of loads that `make thorough` simulates.
SCHEDULES ?= 20000

# Taps that are installed in place, each with its program.
SAMPLES := tap_flights tap_airlines tap_planes tap_petstore tap_postgres

# Which peers the tests and the benchmarks compare with: tests/peers.py makes them.
TEST_PEERS  := singer_sdk meltano airbyte_models fivetran_wire
# A client of 780 MB (it brings airbyte-cdk) whose installation takes longer than the tests that
# need it, manifests of others, and what only tests that take long need.
LONG_PEERS  := pyairbyte airbyte_sources public_plugins spark_connect s3_server pyiceberg readers twine \
               duckdb dagster prefect airflow
BENCH_PEERS := singer_sdk airbyte_cdk dlt tap_postgres fivetran_sdk

# With an archive of its Java classes, Spark starts faster.
CLASS_ARCHIVE := $(PY) -m target_spark.spark.class_archive

# The same examples of a property in every run, so that a run says something of the code alone.
TEST := $(PY) -m pytest --hypothesis-profile=ci --durations=30 --durations-min=8 $(PYTEST_ARGS)

# Some images set it. Each of the tests' thousands of processes would then compile all its modules.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test thorough check lint types rules coverage bench peers docs lock audit setup clean

help:
	@sed -n 's/^#   //p' Makefile

setup: $(READY)

$(READY): $(LOCKS) pyproject.toml samples/*/pyproject.toml scripts/preflight.sh scripts/run_uv.py
	@python="$$(PYTHON="$(PYTHON)" sh scripts/preflight.sh)" && \
	  echo "Installing into $(VENV) with $$python" && \
	  { [ -x $(PY) ] || "$$python" -m venv $(VENV); }
	$(PY) -m $(PIP) -r requirements-uv.lock
	$(LOCKED) -r requirements-build.lock
	$(LOCKED) -r requirements-dev.lock
	$(LOCKED) -r samples/requirements.txt
	@# Folders have no hash, so a separate command installs them.
	$(INSTALL) -e . $(SAMPLES:%=-e samples/%)
	@# uv compiles what it copies, but not what is installed in place.
	$(PY) -m compileall -q -j 0 tap_core target_spark fivetran_tester samples
	@touch $@

demo: setup
	$(PY) samples/main_job.py

test: setup
	@echo "The classes of Spark with Delta are archived, for the tests that start it, while peers and" \
	  "PostgreSQL are installed and the test files compiled."
	@$(CLASS_ARCHIVE) delta & \
	  $(PY) -m tests.peers $(TEST_PEERS) && $(PY) -m tests.postgres && \
	  { $(TEST) --collect-only --quiet > /dev/null 2>&1; true; }; \
	  installed=$$?; wait; exit $$installed
	@sh scripts/run_tests.sh "not thorough" $(TEST)

check: lint types test thorough

# What `make test` leaves out, mutations of the fuzz corpus, and properties with new examples.
thorough: setup $(DOCS)/.ready
	-$(CLASS_ARCHIVE)
	$(PY) -m tests.peers $(TEST_PEERS) $(LONG_PEERS)
	$(PY) -m tests.postgres
	FUZZ_SECONDS=$(FUZZ_SECONDS) SCHEDULES=$(SCHEDULES) \
	  sh scripts/run_tests.sh thorough $(PY) -m pytest --every-format $(PYTEST_ARGS)
	$(PY) -m pytest -m "hypothesis and not spark" $(PYTEST_ARGS)

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(PY)

rules: setup
	$(PY) -m pytest tests/code_rules

coverage: setup
	$(PY) -m tests.peers $(TEST_PEERS)
	$(PY) -m tests.postgres
	$(PY) -m pytest --every-format --cov --cov-report= $(PYTEST_ARGS)
	$(BIN)/coverage report --include='tap_core/*' --fail-under=98
	$(BIN)/coverage report --include='target_spark/*' --fail-under=95

bench: setup
	-$(CLASS_ARCHIVE) delta parquet
	$(PY) -m tests.peers $(BENCH_PEERS)
	$(PY) -m tests.postgres wal2json
	$(PY) -m tests.bench

peers: setup
	$(PY) -m tests.peers

# Strict: a broken link or a public name without a docstring is an error.
docs: $(DOCS)/.ready
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/mkdocs build

$(DOCS)/.ready: requirements-docs.lock | $(READY)
	$(UV) venv --quiet --clear --python $(PY) $(DOCS)
	$(LOCKED) --python $(DOCS)/bin/python -r requirements-docs.lock
	@touch $@

# Universal: the markers in the lock files choose for Python 3.10 to 3.13.
lock: setup
	sh scripts/lock.sh "$(UV)" $(LOCK_ARGS)

# The script's exit: 0 nothing known, 1 advisories, 3 the feed could not be asked, so nothing was
# checked. make names it ("Error 3") and exits with 2 for both.
audit: setup
	$(UV) venv --quiet --clear --python $(PY) .venv-audit
	$(LOCKED) --python .venv-audit/bin/python -r requirements-audit.lock
	$(PY) scripts/audit.py --pip-audit .venv-audit/bin/pip-audit

clean:
	rm -rf $(VENV) $(PEERS) $(DOCS) .venv-audit build/site demo .mypy_cache .ruff_cache .pytest_cache
