# Each command runs in a virtual environment, .venv, which the first one makes. The lines of a command
# that begin with "##" are what "make help" prints.

SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach name,python3.13 python3.12 python3.11 python3 python,\
	$(if $(shell $(name) -c 'import sys; print("ok" if sys.version_info >= (3, 11) else "")' 2>/dev/null),$(name))))

# Some images tell Python to keep nothing of what it compiles. Each of the hundreds of processes of a
# run of the tests would then compile all that it imports.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
# What installs into a Python's environment: pip, or uv if UV names it, which takes a quarter of the
# time, but reads no pip.conf. Python compiles what is imported: most of what these libraries bring never
# is, and to compile all of it takes as long as to fetch and unpack it.
ifdef UV
INSTALL_WITH = $(UV) pip install --quiet --no-compile --python $(1)
else
INSTALL_WITH = $(1) -m pip --disable-pip-version-check --quiet install --no-compile
endif
INSTALL := $(call INSTALL_WITH,$(BIN)/python)
# PySpark comes as sources, of which pip makes a wheel; to compress its jars for that, only to unpack
# them again, would take longer than all else of it.
UNCOMPRESSED := --config-settings=--build-option=--compression=stored
RUN := $(VENV)/.run-installed
ALL := $(VENV)/.all-installed
CLASSES := $(VENV)/.classes-archived
PEERS := $(VENV)/.peers-installed
DOCS := $(VENV)/.docs-installed
PACKAGES := mta stores spark_integration
EVENTS ?= 4000000
# What the package's extra "spark" asks for, word by word in quotes.
SPARK = $(shell sed -n 's/", "/" "/g; s/^spark = \[\(.*\)\]$$/\1/p' pyproject.toml)
OLDEST_SPARKS := 3.5.9 4.0.0
# The newest that both kinds of tables have a release for.
TABLES := delta:4.1.4 iceberg:4.1.4
TABLE_SPARKS := $(sort $(foreach each,$(TABLES),$(lastword $(subst :, ,$(each)))))
KEYS ?= 100

.DEFAULT_GOAL := help
.PHONY: help demo test core kernels spark-environments spark-versions soak lint docs bench clean

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
	@$(BIN)/mta demo --events $(EVENTS) --keys $(KEYS) $(if $(DATA),--data "$(DATA)") \
		$(if $(KEY),--key "$(KEY)") $(if $(TIME),--time "$(TIME)") \
		$(if $(TIME_FORMAT),--time-format "$(TIME_FORMAT)") \
		$(if $(VALUE),--value "$(VALUE)") $(if $(WINDOW),--window "$(WINDOW)") $(ARGS) || { code=$$?; \
		echo "-- make passes options such as --delimiter in ARGS=\"--delimiter ';'\"" >&2; exit $$code; }

# A process without tests takes some of another's; tests/support/order.py says with which they begin.
## run all tests, in a process for each core and two more, up to four; ARGS="tests/cli -k java"
## runs some, ARGS="-n 0 --pdb" in one process
test: $(ALL) $(CLASSES)
	@$(BIN)/python -m pytest -n auto --dist worksteal $(ARGS)

# Outside this folder, so that nothing is found but what the wheel brings. The example of rolling needs
# pandas.
## test the core alone: its wheel in an environment without any extra, outside this folder
core:
	@set -e; place=$$(mktemp -d); trap 'rm -rf "$$place"' EXIT; \
	echo "-- installing the core alone, from its wheel, into $$place"; \
	$(PYTHON) -m venv "$$place/venv"; \
	pip="$$place/venv/bin/python -m pip --disable-pip-version-check --quiet"; \
	mkdir "$$place/source"; cp -r pyproject.toml README.md $(PACKAGES) "$$place/source"; \
	$$pip wheel --no-deps --wheel-dir "$$place" "$$place/source"; \
	rm -r "$$place/source"; $$pip install --no-compile "$$place"/*.whl "pytest>=8"; $$pip check; \
	cp -r tests/core "$$place/tests"; cd "$$place"; \
	venv/bin/mta --version; \
	MTA_CORE_ALONE=1 venv/bin/python -m pytest -q -p no:cacheprovider tests; \
	venv/bin/python -m pytest -q -p no:cacheprovider --doctest-modules \
		--doctest-ignore-import-errors -k "not rolling.rolling" --pyargs mta stores

# Elsewhere, so that nothing built with sanitizers stays here. Python itself is not built with them.
# Numbers, and pages that are not what they say; what stores and roots do is the same without kernels,
# and windows that live at random do so with and without them in tests/kernels.
SUITES := tests/folds tests/evaluators/test_runs.py \
	$(patsubst %,tests/keyed/test_%.py,formats going_on keys random rolling windows) -k "not fails"
## test the compiled kernels under the sanitizers of gcc or clang, and the suites that use
## kernels without compiled ones
kernels: $(ALL)
	@set -e; if ! command -v $(firstword $(CC)) >/dev/null; then \
		echo "!! no C compiler ($(CC)): the compiled kernels were NOT built and NOT tested"; exit 0; fi; \
	python=$$(realpath -s $(BIN)/python); \
	include=$$($$python -c 'import sysconfig; print(sysconfig.get_path("include"))'); \
	if ! test -f "$$include/Python.h"; then \
		echo "!! no Python.h in $$include (python3-dev): the compiled kernels were NOT built and NOT tested"; exit 0; fi; \
	place=$$(mktemp -d); trap 'rm -rf "$$place"' EXIT; \
	cp -r pyproject.toml conftest.py mta stores tests "$$place"; cd "$$place"; \
	echo "-- compiling the kernels with sanitizers"; \
	$(CC) -O1 -g -shared -fPIC -Wall -Wextra -Werror -ffp-contract=off -DPy_LIMITED_API=0x030B0000 \
		-fsanitize=address,undefined -fno-sanitize-recover=all \
		-I"$$include" \
		mta/kernels/*.c -o mta/kernels/compiled.abi3.so -lm; \
	export PYTHONPATH="$$place" ASAN_OPTIONS=detect_leaks=0; \
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so)" MTA_KERNELS=native \
		$$python -m pytest -q -n 0 -p no:cacheprovider tests/kernels; \
	echo "-- the suites that lean on kernels, with numpy alone"; \
	MTA_KERNELS=numpy $$python -m pytest -q -n 0 -p no:cacheprovider $(SUITES)

# An environment is what pip makes of an old PySpark today. The libraries of its time are in a folder
# beside, for the path. For the newest Python there are no wheels that are as old.
SPARKS := $(patsubst %,$(VENV)/pyspark-%/.ready,$(OLDEST_SPARKS) $(TABLE_SPARKS))
$(SPARKS): $(VENV)/pyspark-%/.ready: $(VENV)/pyvenv.cfg
	@set -e; python=$$(command -v python3.11 || command -v python3.12 || true); \
	test -n "$$python" || { echo "-- PySpark $* not run: it wants Python 3.11 or 3.12"; exit 0; }; \
	echo "-- installing PySpark $* into $(@D)"; rm -rf $(@D); $$python -m venv $(@D); \
	$(call INSTALL_WITH,$(@D)/bin/python) $(UNCOMPRESSED) \
		"pyspark==$*" $(SPARK) redis msgpack lmdb xxhash "pytest>=8" hypothesis; \
	[[ " $(OLDEST_SPARKS) " != *" $* "* ]] || $(call INSTALL_WITH,$(@D)/bin/python) --target $(@D)/oldest \
		"pandas==2.2.*" "polars==1.21.*" "pyarrow==15.*" "numpy==1.26.*" "protobuf==5.*"; \
	touch $@

## make the environments of "make spark-versions", without the tests
spark-environments: $(SPARKS)

## run the core of the tests with the oldest versions of PySpark, each with libraries of its
## time and with those that pip picks today, and tables with the newest that they have a release
## for (ARGS="-m soak": their long form); "make test" runs all tests with the newest
spark-versions: $(ALL) spark-environments
	@set -e; export PATH="$$(dirname "$$($(BIN)/python -m spark_integration.java)"):$$PATH"; \
	java -version 2>&1 | grep -Eq 'version "(17|18|19|20|21|22|23)' || { \
		echo "-- PySpark $(OLDEST_SPARKS) not run: they want Java 17 to 23"; exit 0; }; \
	for version in $(OLDEST_SPARKS); do \
		place=$(VENV)/pyspark-$$version; test -f $$place/.ready || continue; \
		pytest="$$place/bin/python -m pytest -q -p no:cacheprovider"; oldest=$$PWD/$$place/oldest; \
		$$pytest tests/spark/test_fresh.py; \
		PYTHONPATH=$$oldest $$pytest -W ignore -k "not redis" tests/spark/test_versions.py; \
		test -n "$$ran" || PYTHONPATH=$$oldest $$pytest -k polars \
			tests/windows/test_inputs.py tests/keyed/test_rolling.py; \
		ran="$${ran:+$$ran, }$$version"; \
	done; \
	for table in $(TABLES); do \
		place=$(VENV)/pyspark-$${table#*:}; test -f $$place/.ready || continue; \
		$$place/bin/python -m pytest -q -p no:cacheprovider $(ARGS) \
			tests/examples/test_examples.py tests/spark/test_tables.py \
			-k "table and $${table%:*}"; \
		ran="$${ran:+$$ran, }$${table#*:} ($${table%:*})"; \
	done; \
	echo "-- ran with PySpark $${ran:-none}; 'make test' runs all with" \
		"$$($(BIN)/python -c 'import pyspark; print(pyspark.__version__)')"

## run thousands of kills and faults, what else takes long, and the combinations that make test
## leaves out, in about an hour (MTA_SOAK_KILLS=2000 is how many writers are killed, and a Spark
## driver for each hundred; the printed MTA_SOAK_SEED replays a run)
soak: $(ALL) $(CLASSES)
	@$(BIN)/python -m pytest -s -m "soak or rest" $(ARGS)

## run ruff, mypy and codespell
lint: $(ALL)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell $(PACKAGES) benchmarks tests docs examples docker *.md

## make these documents as a site, docs-output/index.html, which needs no network; fails where
## a link or a name leads nowhere
docs: $(DOCS)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet --config-file docs/site/mkdocs.yml
	@echo "-- open docs-output/index.html"

## run the papers' experiments and our figures, with a report in bench-output; hours, and
## resumable; ARGS=--quick takes minutes (benchmarks/README.md)
bench: $(PEERS)
	@$(BIN)/python -m benchmarks $(ARGS)

## remove what these commands made
clean:
	rm -rf $(VENV) demo-output bench-output docs-output build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# What a run needs: Spark and plots, and a Java if the machine has none.
$(RUN): $(VENV)/pyvenv.cfg pyproject.toml $(wildcard mta/kernels/*.[ch])
	@echo "-- installing the package with Spark, plots and mta serve into $(VENV)"
	@$(INSTALL) $(UNCOMPRESSED) $(SPARK)
	@$(INSTALL) --editable ".[spark,plots,serve]"
	@$(BIN)/python -m spark_integration.java >/dev/null 2>&1 || { \
		echo "-- no Java 17 or later here: installing one into $(VENV)"; \
		$(INSTALL) --editable ".[java]"; \
		$(BIN)/python -m spark_integration.java >/dev/null; }
	@touch $@

# What the tests need besides. The Couchbase client has no wheels for some platforms, and building
# it takes long: without it the tests of that store are skipped.
$(ALL): $(RUN)
	@echo "-- installing the test tools and the stores' clients into $(VENV)"
	@$(INSTALL) --editable ".[redis,objects,test]"
	@$(INSTALL) --only-binary couchbase --editable ".[couchbase]" || \
		echo "-- no wheel of the Couchbase client for this platform: its tests will be skipped"
	@touch $@

# Of the classes that Spark's Java loads: the tests start dozens of them.
$(CLASSES): $(RUN)
	@echo "-- archiving Spark's classes for the tests"
	@rm -f $(VENV)/mta-tests-spark/classes.jsa
	@$(BIN)/python -m tests.support.spark.classes >/dev/null || \
		echo "-- there is no archive: the tests' Javas start more slowly"
	@touch $@

# The libraries that the benchmarks compare with; they skip those that a platform has no wheel of.
$(PEERS): $(RUN)
	@echo "-- installing the libraries to compare with into $(VENV)"
	@$(INSTALL) --editable ".[spark,plots,bench,sketches]" || echo "-- some are not to be had: they will be skipped"
	@touch $@

# The site's generator, which reads the sources without importing them.
$(DOCS): $(VENV)/pyvenv.cfg pyproject.toml
	@echo "-- installing the site's generator into $(VENV)"
	@$(INSTALL) --editable ".[docs]"
	@touch $@

$(VENV)/pyvenv.cfg:
	@test -n "$(PYTHON)" || { \
		echo "Python 3.11 or later is needed, and none is on PATH (there is: $$(python3 --version 2>&1)):" \
			"install it, or run 'make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)'"; exit 1; }
	@echo "-- making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
		echo "$(PYTHON) lacks the module venv: install it (on Debian and Ubuntu: apt install python3-venv)"; \
		exit 1; }
	@touch $@
