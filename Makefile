# Everything a developer or CI runs. `make help` lists the targets.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# The environment is .venv, unless the tree belongs to somebody else; then it is the caller's own.
CACHE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)
VENV ?= $(shell if [ -w .venv ] || { [ ! -e .venv ] && [ -w . ]; }; then echo .venv; \
	else echo "$(CACHE)/dragoman/venv"; fi)
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest
JOBS ?= 2

export PYRIGHT_PYTHON_IGNORE_WARNINGS ?= 1
export RUFF_NO_CACHE ?= true

.PHONY: help setup demo test check bench torture mutants docs lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.ready ## make the virtual environment from the lock

$(VENV)/.ready: requirements-dev.lock pyproject.toml tools/setup.sh
	@tools/setup.sh "$(VENV)" requirements-dev.lock
	@touch "$@"

demo: setup ## show the whole system on this machine, without a key
	@$(BIN)/dragoman demo

test: setup ## run the whole suite
	@$(PYTEST) -n $(JOBS)

check: setup ## formatting, lint, types, import contracts, conformance page
	@failed=; \
	run() { echo "== $$1"; "$${@:2}" || failed+=" $$1;"; }; \
	run 'ruff format' $(BIN)/ruff format --check --output-format concise .; \
	run 'ruff check' $(BIN)/ruff check --output-format concise .; \
	run 'pyright' $(BIN)/pyright --pythonpath "$(BIN)/python"; \
	run 'import contracts' $(BIN)/lint-imports --no-logo --no-cache; \
	run 'conformance' $(BIN)/python tools/conformance.py --check; \
	run 'lengths' $(BIN)/python tools/lengths.py; \
	if [ -n "$$failed" ]; then echo "check failed:$$failed" >&2; exit 1; fi; \
	echo "check passed"

bench: setup ## measure, all parts or PART="drain steady"; SIZE=--quick is smaller
	@$(BIN)/python -m bench $(SIZE) $(PART)

torture: setup ## run the long fault tests
	@if compgen -G 'tests/torture/test_*.py' >/dev/null; \
	then $(PYTEST) -o 'norecursedirs=planted .*' --timeout=3600 tests/torture; \
	else echo "torture: there is no torture test yet"; fi

mutants: setup ## break our own code on purpose and see the tests fail
	@if compgen -G 'tests/planted/test_*.py' >/dev/null; \
	then $(PYTEST) -o 'norecursedirs=torture .*' --timeout=3600 tests/planted; \
	else echo "mutants: there is no planted mutation yet"; fi

docs: setup ## write the generated pages again
	@$(BIN)/python tools/conformance.py

# uv asks the index that UV_DEFAULT_INDEX names; no address is written into a lock.
LOCK = $(BIN)/uv pip compile pyproject.toml --quiet --universal --python-version 3.11 \
	--generate-hashes --no-header --no-emit-index-url --no-emit-find-links $(UPGRADE)

lock: setup ## resolve the locks again (UPGRADE=--upgrade for newer versions)
	@$(BIN)/python -m pip install --quiet 'uv==0.13.8'
	@$(LOCK) --group build --output-file requirements.lock
	@$(LOCK) --group dev --constraint requirements.lock --output-file requirements-dev.lock

clean: ## remove what the targets made
	@rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
