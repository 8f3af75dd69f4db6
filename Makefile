# Each command runs in a virtual environment, .venv, which the first one makes. The lines of a command
# that begin with "##" are what "make help" prints. For other environments, see .venv/bin/nox --list.

SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach name,python3.13 python3.12 python3.11 python3 python,\
	$(if $(shell $(name) -c 'import sys; print("ok" if sys.version_info >= (3, 11) else "")' 2>/dev/null),$(name))))

# Some images tell Python to keep nothing that it compiles; each process of the tests would compile all.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
# pip, or uv if UV names it. Compiling all of the libraries would take as long as fetching them.
INSTALL = $(if $(UV),$(UV) pip install --quiet --no-compile --python $(BIN)/python,\
	$(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile)
# PySpark comes as sources, of which pip makes a wheel; its jars need not be compressed for that.
UNCOMPRESSED := --config-settings=--build-option=--compression=stored
SPARK = $(shell sed -n 's/", "/" "/g; s/^spark = \[\(.*\)\]$$/\1/p' pyproject.toml)
PACKAGES := mta stores spark_integration
RUN := $(VENV)/.run-installed
ALL := $(VENV)/.all-installed
CLASSES := $(VENV)/.classes-archived
PEERS := $(VENV)/.peers-installed
EVENTS ?= 4000000
KEYS ?= 100
option = $(if $($(1)),--$(2) "$($(1))")

.DEFAULT_GOAL := help
.PHONY: help demo test soak lint docs bench clean

## print these lines
help:
	@awk '/^## / { text[++lines] = substr($$0, 4); next } \
		lines && /^[a-z-]+:/ { printf "make %-20s%s\n", substr($$1, 1, index($$1, ":") - 1), text[1]; \
			for (line = 2; line <= lines; line++) printf "%25s%s\n", "", text[line] } \
		{ lines = 0 }' Makefile

## run windows over a generated stream of 4 million events, check and plot them
## DATA=path: over a CSV, JSON or Parquet file, or a folder of them; if need be, KEY=, TIME=,
## VALUE= name the columns, WINDOW= the size, TIME_FORMAT= the form of times as in dd/MM/yyyy HH:mm;
## ARGS="--delimiter ';' --decimal ','" passes any option of mta demo
demo: $(RUN)
	@$(BIN)/mta demo --events $(EVENTS) --keys $(KEYS) $(call option,DATA,data) \
		$(call option,KEY,key) $(call option,TIME,time) $(call option,TIME_FORMAT,time-format) \
		$(call option,VALUE,value) $(call option,WINDOW,window) $(ARGS) || { code=$$?; \
		echo "-- make passes options such as --delimiter in ARGS=\"--delimiter ';'\"" >&2; exit $$code; }

# A process without tests takes some of another's; tests/support/order.py says with which they begin.
## run all tests, in a process for each core and two more, up to four; ARGS="tests/cli -k java"
## runs some, ARGS="-n 0 --pdb" in one process
test: $(ALL) $(CLASSES)
	@$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

## run thousands of kills and faults, what else takes long, and the combinations that make test
## leaves out, in about an hour (MTA_SOAK_KILLS=2000 is how many writers are killed, and a Spark
## driver for each hundred; the printed MTA_SOAK_SEED replays a run)
soak: $(ALL) $(CLASSES)
	@$(BIN)/python -m pytest -s -m soak $(ARGS)

## run ruff, mypy and codespell
lint: $(ALL)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell $(PACKAGES) benchmarks tests docs examples docker *.md

## make these documents as a site, docs-output/index.html, which needs no network; fails where
## a link or a name leads nowhere
docs: $(ALL)
	@$(BIN)/nox -s docs

## run the papers' experiments and our figures, with a report in bench-output; hours, and
## resumable; ARGS=--quick takes minutes (benchmarks/README.md)
bench: $(PEERS)
	@$(BIN)/python -m benchmarks $(ARGS)

## remove what these commands made
clean:
	rm -rf $(VENV) .nox demo-output bench-output docs-output build dist *.egg-info .*_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What a run needs, and a Java if the machine has none.
$(RUN): $(VENV)/pyvenv.cfg pyproject.toml $(wildcard mta/kernels/*.[ch])
	@echo "-- installing the package with Spark, plots and mta serve into $(VENV)"
	@$(INSTALL) $(UNCOMPRESSED) $(SPARK)
	@$(INSTALL) --editable ".[spark,plots,serve]"
	@$(BIN)/python -m spark_integration.java >/dev/null 2>&1 || { \
		echo "-- no Java 17 or later here: installing one into $(VENV)"; \
		$(INSTALL) --editable ".[java]"; $(BIN)/python -m spark_integration.java >/dev/null; }
	@touch $@

# What the tests need besides. The Couchbase client has no wheels for some platforms, and building
# it takes long: without it the tests of that store are skipped.
$(ALL): $(RUN)
	@echo "-- installing the test tools and the stores' clients into $(VENV)"
	@$(INSTALL) --editable ".[redis,objects,test]"
	@$(INSTALL) --only-binary couchbase --editable ".[couchbase]" || \
		echo "-- no wheel of the Couchbase client for this platform: its tests will be skipped"
	@touch $@

# The classes that Spark's Java loads, for the dozens of Javas that the tests start.
$(CLASSES): $(RUN)
	@echo "-- archiving Spark's classes for the tests"; rm -f $(VENV)/mta-tests-spark/classes.jsa
	@$(BIN)/python -m tests.support.spark.classes >/dev/null || \
		echo "-- there is no archive: the tests' Javas start more slowly"
	@touch $@

# The libraries that the benchmarks compare with; they skip those that a platform has no wheel of.
$(PEERS): $(RUN)
	@echo "-- installing the libraries to compare with into $(VENV)"
	@$(INSTALL) --editable ".[spark,plots,bench,sketches]" || echo "-- some are not to be had: they will be skipped"
	@touch $@

$(VENV)/pyvenv.cfg:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or later is needed, and none is on PATH (there is:" \
		"$$(python3 --version 2>&1)): install it, or run 'make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)'"; exit 1; }
	@echo "-- making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) lacks the module venv: install" \
		"it (on Debian and Ubuntu: apt install python3-venv)"; exit 1; }
	@touch $@
