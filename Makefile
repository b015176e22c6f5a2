# `make demo` and `make test` do everything on a machine that has Python 3.11–3.13 and make.
# Packages come from wherever pip is set up to look; the lock fixes their versions and hashes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV ?= .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell .ci/find-python)
DEMO ?= glomo-demo
# Test processes side by side; TensorFlow spends most of a small test in one thread.
JOBS ?= 2

export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: help demo environment test pytest lint format lock clean

help:
	@echo "make demo    learn graphs, transfer them, draw them (a few minutes; results in $(DEMO)/)"
	@echo "make test    every check: tests, style, types, import rules, dependencies, lock"
	@echo "make lint    every check but the tests"
	@echo "make format  put the code into the house style"
	@echo "make lock    write requirements.lock anew (LOCK=--upgrade for newer versions)"

environment: $(VENV)/installed

$(VENV)/installed: requirements.lock pyproject.toml
	@[ -n "$(PYTHON)" ] || { echo "error: Expected a Python from 3.11 to 3.13 on the path; name one: make PYTHON=/path/to/python3" >&2; exit 2; }
	[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

demo: environment
	$(BIN)/glomo demo --out $(DEMO) --overwrite

lint: environment
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/deptry .
	$(BIN)/python .ci/lock.py check

# The tests come last, so that their closing line ends the output.
test: lint
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

pytest: environment
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile

format: environment
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lock: environment
	$(BIN)/python .ci/lock.py make $(LOCK)

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
