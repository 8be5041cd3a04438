# neartwin: one door to everything. `make` lists the targets.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help demo test check fix slow bench docs site package clean

help:  ## list the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(BIN)/python:
	$(PYTHON) -m venv $(VENV) || ($(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(VENV))

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[demo]"
	touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $@ $(VENV)/.demo

demo: $(VENV)/.demo  ## private statistics of real people, the budget before and after, and a page to look at
	$(BIN)/python -m demo

# one thread a worker: matrix products of workers that share cores take more than twice as long with more
test slow bench: export OPENBLAS_NUM_THREADS = 1

# bytecode is kept: without it every run compiles the tests anew, 10 s in each worker
unexport PYTHONDONTWRITEBYTECODE

test: $(VENV)/.dev  ## the tests; as root on Debian it installs openjdk and chromium where they are missing, and says so
	tools/engines.sh
	tools/browser.sh
	$(BIN)/python -m pytest -n auto --dist loadfile -m "not slow"

check: $(VENV)/.dev  ## what CI runs, to the letter: format, lint, types, floors, walls, prose, tests with docs, site
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/walls.py
	$(BIN)/python tools/prose.py --check
	$(MAKE) test
	$(MAKE) site

fix: $(VENV)/.dev  ## format and mend what a tool can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$(BIN)/python tools/reference.py

slow: $(VENV)/.dev  ## fresh randomness, many draws, long sweeps
	tools/engines.sh
	tools/signin.sh
	tools/browser.sh
	$(BIN)/python tools/dependencies.py
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder -m slow

bench: $(VENV)/.dev  ## speed against the peers: each file prints ratios
	for file in bench/bench_*.py; do $(BIN)/python $$file || exit 1; done

docs: $(VENV)/.dev  ## every snippet in README, docs and docstrings, run; then the site
	$(BIN)/python -m pytest README.md docs src
	$(MAKE) site

site: $(VENV)/.dev  ## the documentation site in build/site, every link checked
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

package: $(VENV)/.dev  ## the wheel and the sdist, built and tried in fresh environments
	VENV=$(VENV) tools/package.sh

clean:  ## remove the environment and what tools left
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
