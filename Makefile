# make demo    flights through the embedded dev broker and two streaming queries, with proof and plot
# make unit    the unit tests, without Spark and Java
# make test    everything except the long runs, in four processes
# make lint    ruff, mypy, and the links of the pages
# make docs    writes docs/reference.md and the types of a status again, and builds the site in artifacts/docs
# make coverage    which lines and branches the tests without Spark do not reach
# make matrix  the core tests on every release of Spark, classic and Connect; writes into docs/reference.md
# make brokers    RabbitMQ, ActiveMQ and Artemis on ports of their own, fetched at the first time, until Ctrl-C
# make soak    the property tests at length and the long runs, two parts at a time, with a line for each
# make release  builds wheel and sdist, checks them and what they leave on disk, and says how to publish them
# make bench   the benchmarks, about an hour; writes tests/benchmarks/RESULTS.md
# make clean   removes what these made, the virtual environment included

SHELL := /bin/bash
.DELETE_ON_ERROR:
.PHONY: demo unit test docs coverage lint matrix brokers soak release bench clean

VENV := .venv
BIN := $(abspath $(VENV))/bin
STAMPS := $(VENV)/.stamps
SOURCES := $(shell find spark_stomp -name '*.py' -o -name py.typed) pyproject.toml README.md LICENSE

# The newest interpreter that runs here, can make environments and is not older than 3.10. `make PYTHON=...`
# takes another one. A shim on the PATH need not work, so each candidate is tried.
CANDIDATES := python3.14 python3.13 python3.12 python3.11 python3.10 python3
CHECK := import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 10))
PYTHON = $(shell for p in $(CANDIDATES); do $$p -c "$(CHECK)" >/dev/null 2>&1 && echo $$p && break; done)

# Tests and their processes read and write bytecode, whatever the shell says.
unexport PYTHONDONTWRITEBYTECODE
export SPARK_CONF_DIR := $(abspath conf)
export SPARK_LOCAL_IP := 127.0.0.1
export PYSPARK_PYTHON := $(BIN)/python
export PYSPARK_DRIVER_PYTHON := $(BIN)/python

# The package is installed, never editable: Spark finds `pyspark_stomp` only in an installed wheel, and what is
# tested is what is shipped. setuptools leaves its work behind; an old copy would smuggle in deleted modules.
PIP := $(BIN)/python -m pip --disable-pip-version-check
define install
@rm -rf build spark_stomp.egg-info
@$(PIP) install --quiet --no-build-isolation $(1)
@rm -rf build spark_stomp.egg-info
endef

demo: $(STAMPS)/demo $(STAMPS)/package
	@$(BIN)/python notebooks/demo.py $(if $(ROWS),--rows $(ROWS))

# Spark and its Python processes start in half the time with what this makes. Without it the tests take longer.
$(STAMPS)/archive: $(STAMPS)/dev | $(STAMPS)/package
	@echo "Preparing Spark for quick starts; this happens once and takes about a minute."
	@cd tests && $(BIN)/python -m support.archive >/dev/null 2>&1 || echo "Spark will start slowly." >&2
	@touch $@

# From tests/, so that `spark_stomp` is the installed package and not the folder beside it. In four processes, since
# most tests wait most of the time; tests/conftest.py says what shares one. `ARGS="-n 0"` takes one for all.
test: $(STAMPS)/dev $(STAMPS)/package $(STAMPS)/archive
	cd tests && $(BIN)/pytest -m "not soak" -n 4 --no-loadscope-reorder $(ARGS)

# What needs Spark is in unit/spark and unit/notebooks.
unit: $(STAMPS)/unit $(STAMPS)/package
	cd tests && $(BIN)/pytest unit --ignore unit/spark --ignore unit/notebooks -q -n 2 $(ARGS)

# The first command reads the installed package. A link or an anchor that leads nowhere is an error.
SITE := $(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going docs artifacts/docs
docs: $(STAMPS)/docs $(STAMPS)/package
	$(BIN)/python tools/reference_page.py
	$(SITE)
	@echo "The site begins at artifacts/docs/index.html."

coverage: export COVERAGE_FILE := $(abspath .coverage)
coverage: $(STAMPS)/dev $(STAMPS)/package
	cd tests && $(BIN)/coverage run --rcfile=../pyproject.toml -m pytest -m "not soak and not spark" -n 3 \
		--no-loadscope-reorder $(ARGS)
	$(BIN)/coverage combine --quiet && $(BIN)/coverage report

# Each release of Spark is fetched at the first time (some 400 MB each). `ARGS="4.0-3.10"` takes one environment.
matrix: $(STAMPS)/dev
	cd tests && PYTHONPATH=../tools $(BIN)/python -m releases $(ARGS)

brokers: $(STAMPS)/dev $(STAMPS)/package
	cd tests && $(BIN)/python -m support.brokers $(ARGS)

# About two hours on two cores, two parts at a time; CONTRIBUTING.md says which variables make them longer or shorter.
# A part that has passed is not run again before the package changes or `rm -r artifacts/soak`.
SOAK := fuzz property interop failover streaming cluster hostile unit \
	$(shell cd tests && grep -l mark.soak faults/test_*.py test_*.py)
soak:
	@$(MAKE) --no-print-directory --keep-going -j 2 $(SOAK:%=artifacts/soak/%.passed)

artifacts/soak/%.passed: $(STAMPS)/soak $(STAMPS)/package $(STAMPS)/archive
	@mkdir -p $(@D)
	@cd tests; $(BIN)/pytest $* -m "soak or property" --hypothesis-profile=soak --timeout=7200 -rap --durations=20 \
		$(ARGS) >$(abspath $(@:.passed=.log)) 2>&1; status=$$?; \
		printf '%-40s %s\n' $* "$$(tail -n 1 $(abspath $(@:.passed=.log)) | tr -d =)"; \
		if [ $$status = 0 ]; then touch $(abspath $@); else echo "see $(@:.passed=.log)"; exit 1; fi

# Some ten minutes, with a download of Spark at the first time. It publishes nothing.
release: $(STAMPS)/dev $(STAMPS)/package
	@cd tests && PYTHONPATH=../tools:. $(BIN)/python -m release

# From tests/, like the tests. Each benchmark adds to its file of results, and begins it anew; what cannot be had is
# left out with a word. tests/benchmarks/README.md says how long they take, and how to run parts of them.
BENCH := codec encode costs sink memory latency destinations typed real
bench: $(STAMPS)/dev $(STAMPS)/package
	@cd tests && failed=; for bench in $(BENCH); do \
		$(BIN)/python -m benchmarks.$$bench --fresh $(ARGS) || failed="$$failed $$bench"; done; \
		$(BIN)/python -m benchmarks.report || failed="$$failed report"; \
		[ -z "$$failed" ] || { echo "These ended with an error, so the page is not whole:$$failed" >&2; exit 1; }

lint: $(STAMPS)/dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(SITE)

clean:
	rm -rf $(VENV) build dist spark_stomp.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.coverage htmlcov artifacts spark-warehouse metastore_db
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(STAMPS)/venv:
	@test -n "$(PYTHON)" || { echo "No Python 3.10 or later that can make virtual environments" \
		"(on Debian and Ubuntu: apt-get install python3-venv)." >&2; exit 1; }
	@echo "Making a virtual environment in $(VENV); this happens once and takes some seconds."
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) install --quiet --upgrade "pip>=23.1" "setuptools>=77" wheel cffi
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/unit: pyproject.toml | $(STAMPS)/venv
	$(call install,".[unit]")
	@touch $@ $(STAMPS)/package

$(STAMPS)/docs: pyproject.toml | $(STAMPS)/venv
	$(call install,".[docs]")
	@touch $@ $(STAMPS)/unit $(STAMPS)/package

$(STAMPS)/demo: pyproject.toml | $(STAMPS)/venv
	@echo "Installing PySpark and what the demo draws with; this happens once and takes a minute or two."
	$(call install,".[demo]")
	@touch $@ $(STAMPS)/package

$(STAMPS)/dev: pyproject.toml | $(STAMPS)/venv
	@echo "Installing PySpark and what the tests need; this happens once and takes some minutes."
	$(call install,".[dev]")
	@touch $@ $(STAMPS)/unit $(STAMPS)/docs $(STAMPS)/demo $(STAMPS)/package

$(STAMPS)/soak: pyproject.toml | $(STAMPS)/venv
	$(call install,".[soak]")
	@touch $@ $(STAMPS)/dev $(STAMPS)/unit $(STAMPS)/docs $(STAMPS)/demo $(STAMPS)/package

$(STAMPS)/package: $(SOURCES) | $(STAMPS)/venv
	@echo "Installing spark-stomp from this folder."
	$(call install,--no-deps --force-reinstall .)
	@touch $@
