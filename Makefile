# Everything works from an empty clone on a machine with Python 3.11 or later, pip and make; no GPU is needed.
PYTHON ?= python3
OUT ?= runs
BIN := .venv/bin

.PHONY: setup reproduce test test-all lint bench gpu clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

# Every theory plot and the report, into $(OUT).  The report is written even if a check failed; the status tells.
reproduce: setup
	@$(BIN)/crosslayer run --all --profile cpu --out $(OUT); status=$$?; \
	if [ $$status -gt 1 ]; then exit $$status; fi; \
	$(BIN)/crosslayer report --out $(OUT) && exit $$status

test: setup
	$(BIN)/python -m pytest -m "not slow"

test-all: setup
	$(BIN)/python -m pytest

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: setup
	$(BIN)/crosslayer bench

# The gpu profile of every experiment that has one.
gpu: setup
	$(BIN)/crosslayer run --all --profile gpu --out $(OUT)

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
