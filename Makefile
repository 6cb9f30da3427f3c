# dtq: everything a developer runs. `make` lists the targets.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
ARGS ?=
# Four processes, each with a server of its own: most tests wait for a server or for time to pass.
ABREAST := --numprocesses 4 --dist worksteal

# $(call pytest,PYTHON,PLACES): as ARGS say; without ARGS the tests there that are not slow, those that measure times alone.
# (Exit code 5: none of them must be alone.)
define pytest
$(if $(ARGS),$(1) -m pytest $(2) $(ARGS),$(1) -m pytest $(2) $(ABREAST) -m "not alone and not installs and not slow" \
	&& { $(1) -m pytest $(2) -m "alone and not slow" || [ $$? = 5 ]; })
endef
SOURCES := $(wildcard dtq_engine pytest_dtq.py webapp gunicorn.conf.py worker_main.py examples benchmarks tools tests)

# The checkers must not look for newer releases of themselves: it costs a request and can fail.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: run
run: venv ## Run the demo on real files with its own server, until Ctrl-C (ARGS=--once: until all tasks ended)
	@$(PY) -m examples.demo $(ARGS)

.PHONY: test
test: lint types tests ## Everything that must pass: style, types, tests

.PHONY: tests
tests: venv ## The tests alone, some at a time, then those that measure times (ARGS="-k lease" picks some)
	@$(call pytest,$(PY))

.PHONY: test-slow
test-slow: venv ## The tests that start interpreters, deployments and browsers (Debian's chromium is installed when missing)
	@test -x /usr/bin/chromium || tools/install.sh chromium
	@$(if $(ARGS),$(PY) -m pytest $(ARGS),$(PY) -m pytest $(ABREAST) -m "slow and not alone" && $(PY) -m pytest -m "slow and alone")

.PHONY: lint
lint: venv ## Style and format, without changing anything
	@$(VENV)/bin/ruff check $(SOURCES)
	@$(VENV)/bin/ruff format --check $(SOURCES)

.PHONY: types
types: venv ## Strict types, by mypy and by pyright
	@$(VENV)/bin/mypy $(SOURCES)
	@$(VENV)/bin/pyright --pythonpath $(PY)

.PHONY: format
format: venv ## Put imports and format in order
	@$(VENV)/bin/ruff check --fix $(SOURCES)
	@$(VENV)/bin/ruff format $(SOURCES)

.PHONY: docs
docs: venv ## Write the generated pages of docs/ anew
	@$(PY) -m tools.write_docs
	@$(PY) -m benchmarks.report

.PHONY: bench
bench: venv ## Measure submit, drain, idle start, memory and more (3 minutes; ARGS="--save" writes docs/benchmarks.md)
	@$(PY) -m benchmarks.bench $(ARGS)

.PHONY: bench-peers
bench-peers: venv ## The same for other task queues, installed into build/peers (15 minutes; ARGS="--only arq,rq")
	@$(PY) -m benchmarks.compare $(ARGS)

.PHONY: bench-anatomy
bench-anatomy: venv ## Where the time of a task goes, in Redis and in Python, for docs/performance.md (needs valgrind)
	@$(PY) -m benchmarks.anatomy $(ARGS)

.PHONY: bench-growth
bench-growth: venv ## Measure with a million tasks waiting or delayed, many queues, lost workers, a cluster (7 minutes)
	@$(PY) -m benchmarks.growth $(ARGS)

# Where the tests are that other servers must pass as well, and other Pythons; continuous integration looks at a part of them.
test-redis test-cluster: PLACES ?= tests/store tests/worker
test-python: PLACES ?= tests/unit tests/fundamentals tests/store

.PHONY: test-redis
test-redis: venv ## The store and worker tests on Redis from the system's packages (Debian: installed when missing)
	@command -v redis-server > /dev/null || tools/install.sh redis-server
	@export DTQ_TEST_SERVER="$$(command -v redis-server)"; $(call pytest,$(PY),$(PLACES))

.PHONY: test-cluster
test-cluster: venv ## The same tests on a cluster of one node, and those of several nodes, sentinels and TLS
	@export DTQ_TEST_CLUSTER=1; $(call pytest,$(PY),$(PLACES))
	@$(PY) -m pytest tests/servers

# pyenv's own python3.13 runs only where that version is chosen: then it is taken from where pyenv keeps it.
KEPT := $(lastword $(sort $(wildcard $(HOME)/.pyenv/versions/*/bin/$(PYTHON))))
OTHER = $(or $(shell $(PYTHON) --version > /dev/null 2>&1 && echo $(PYTHON)),$(KEPT))
OTHER_VENV := .venv-$(patsubst python%,%,$(notdir $(PYTHON)))

.PHONY: test-python
test-python: ## The tests without a worker on another Python (PYTHON=python3.13), in an environment of its own
	@if [ -z "$(OTHER)" ]; then echo "SKIPPED: there is no $(PYTHON) here."; else \
		$(MAKE) --no-print-directory venv VENV=$(OTHER_VENV) PYTHON=$(OTHER) && \
		$(OTHER_VENV)/bin/python -m pytest $(PLACES) $(or $(ARGS),$(ABREAST)); fi

.PHONY: test-wheel
test-wheel: venv ## Build the wheel, install it as its users do, and run it and every command of the README there
	@$(PY) -m pytest tests/packaging $(ARGS)

.PHONY: fuzz-http
fuzz-http: venv ## Try to break the HTTP API by its own description (ARGS="--max-examples 300 --seed 7")
	@$(PY) -m tools.fuzz_http $(ARGS)

.PHONY: bench-http
bench-http: venv ## Measure submits over HTTP beside a bare Flask hello-world (about a minute)
	@$(PY) -m benchmarks.http $(ARGS)

.PHONY: screenshots
screenshots: venv ## Take pictures of all pages in light, dark and on a phone, into docs/screenshots (ARGS="overview tasks")
	@test -x /usr/bin/chromium || tools/install.sh chromium
	@$(PY) -m tests.browser.screenshots $(ARGS)

.PHONY: explore
explore: venv ## Thousands of random histories of all scripts (ARGS="--histories 100 --seed 7")
	@$(PY) -m tests.explore $(or $(ARGS),--histories 3000)

.PHONY: mutants
mutants: venv ## Break the scripts in every listed way and see that it is noticed; writes docs/testing.md
	@$(PY) -m tests.explore.mutants $(ARGS)

.PHONY: venv
venv: $(STAMP) ## Make the virtual environment (quick when it is up to date)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dtq needs Python 3.11 or later, and $(PYTHON) is $$($(PYTHON) --version 2>&1): say make PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
		echo "$(PYTHON) cannot make virtual environments: install its venv module (Debian: python3-venv)." >&2; exit 1; }
	@echo "Installing into $(VENV), which takes a minute the first time ..."
	@$(PY) -m pip install --quiet --editable '.[maintain]'
	@touch $(STAMP)

.PHONY: clean
clean: ## Remove the virtual environment, caches, builds and the demo's data
	@rm -rf $(VENV) .venv-* .dtq .hypothesis .mypy_cache .pytest_cache .ruff_cache build dist
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
