# Everything works from an empty clone on a machine with Python 3.11 or later, pip and make; no GPU is needed.
# TORCH_INDEX=https://download.pytorch.org/whl/cpu: a CPU build of torch, without gigabytes of CUDA libraries.
PYTHON ?= python3
OUT ?= runs
BIN := .venv/bin
# Files in the order of tests/conftest.py, not by their number of tests.
XDIST := --numprocesses auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder

.PHONY: setup reproduce test test-long test-all lint bench scale campaign gpu clean

setup: .venv/.ready

.venv/.ready: pyproject.toml constraints.txt
	"$(PYTHON)" -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt $(if $(TORCH_INDEX),--index-url "$(TORCH_INDEX)") torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

# Every theory plot and the claims ledger, into $(OUT), and the site, whose place is said last.  It is built even if a
# check failed; the status tells.
reproduce: setup
	@$(BIN)/crosslayer run --all --only theory --profile cpu --out "$(OUT)"; status=$$?; \
	if [ $$status -gt 1 ]; then exit $$status; fi; \
	$(BIN)/crosslayer report --verify --out "$(OUT)" && exit $$status

# What is quick, then what CI runs beside it: processes that are killed, networks of several machines, whole commands,
# the entries of the ledger.
test: setup
	$(BIN)/python -m pytest $(XDIST) -m "not slow and not long"

test-long: setup
	$(BIN)/python -m pytest $(XDIST) -m "long and not slow"

test-all: setup
	$(BIN)/python -m pytest $(XDIST)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

bench: setup
	$(BIN)/crosslayer bench

# The experiments with trained decoders on a CPU, but for the campaign's: about an hour and a half on two cores.
scale: setup
	$(BIN)/crosslayer run --all --only scale --profile cpu --out "$(OUT)"

# The pool of text trainings goes on for MINUTES, on one core at the lowest priority; DATA: the folder of its prepared text.
# Every finished training is a line of $(RESULTS)/campaign/metrics.jsonl.
campaign: setup
	@nice -n 19 $(BIN)/crosslayer campaign --minutes "$(MINUTES)" $(if $(DATA),--data "$(DATA)") --out "$(RESULTS)"

# One command of a rental, of MINUTES: what is next on a GPU, the most telling first, with an archive of the results in
# $(ARCHIVE) every minute.  Where $(PYTHON) can run the project as it is, as on a machine without a network, it does;
# elsewhere .venv.  DATA: prepared text, packed or a folder; DRY=1: all of it on a CPU, tiny, every part killed once.
MINUTES ?= 9
PROFILE ?= gpu
RESULTS ?= results
ARCHIVE ?= $(RESULTS)/rental
NEEDS := torch, numpy, scipy, safetensors, tokenizers
gpu:
	@if "$(PYTHON)" -c "import $(NEEDS)" 2>/dev/null; then python="$(PYTHON)"; else "$(MAKE)" setup && python=$(BIN)/python; fi; \
	"$$python" -m experiments rental start --minutes "$(MINUTES)" --profile "$(PROFILE)" --out "$(RESULTS)" \
	--archive "$(ARCHIVE)" $(if $(DATA),--data "$(DATA)") $(if $(DRY),--dry)

clean:
	rm -rf .venv build *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
