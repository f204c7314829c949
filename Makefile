# On a fresh machine with Python and make, each target sets up what it needs in .venv.
PYTHON ?= python3
BIN := .venv/bin
# Any torch from 2.6 on will do; this one is pinned for reproducible tests, and installed first because a
# plain requirement of torch may bring several GB of CUDA packages.
TORCH ?= torch==2.13.0

.PHONY: demo test check docs setup clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet "$(TORCH)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group test
	touch $@

demo: setup
	$(BIN)/bigain demo

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -n 2 --dist loadgroup

docs: setup
	$(BIN)/zensical build --strict

clean:
	rm -rf .venv
