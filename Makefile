# `make tutor` makes the environment and starts the app; `make test` makes it and passes the tests.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TEST_READY := $(VENV)/.test-ready
TEST_ALL_READY := $(VENV)/.test-all-ready
# Each process gets neighboring tests, so that a shared fixture is made once.
PYTEST := $(BIN)/pytest -n 3 --dist worksteal
# Containers often set it. Then each process that a test starts would compile gpututor again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: tutor setup test test-quick test-all lint dist matrix clean

tutor: $(READY)
	@$(BIN)/gpututor

setup: $(TEST_READY)

$(BIN)/python:
	@echo "Making an environment in $(VENV), which takes some seconds."
	@$(PYTHON) -m venv $(VENV)

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing gpututor with PyTorch in $(VENV): once, a minute or more; downloads what is not here yet."
	@$(BIN)/pip install --quiet -c constraints.txt -e .
	@touch $@

$(TEST_READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing gpututor with PyTorch and what its tests need in $(VENV): once, a minute or more."
	@$(BIN)/pip install --quiet -c constraints.txt -e '.[test,triton]'
	@touch $@ $(READY)

$(TEST_ALL_READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing gpututor with PyTorch, Ray and what all its tests need in $(VENV): once, a minute or more."
	@$(BIN)/pip install --quiet -c constraints.txt -e '.[test,triton,ray]'
	@touch $@ $(TEST_READY) $(READY)

lint: $(TEST_READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/ruff format --check --line-length 74 exercises/*/*/starter.py exercises/*/*/solution.py
	$(BIN)/lint-imports
	$(BIN)/mypy

# `make --jobs=2 test` runs both at once: waiting tests leave the type checker a core.
test: lint test-quick

test-quick: $(TEST_READY)
	$(PYTEST) -m 'not long'

test-all: $(TEST_ALL_READY) lint
	$(PYTEST)

dist: $(TEST_READY)
	@rm -rf dist
	$(BIN)/python -m build --no-isolation

# Lists what it would run, and the time; `make matrix ARGS='--run --torch 2.13'` runs it.
matrix:
	@$(PYTHON) tools/matrix.py $(ARGS)

clean:
	rm -rf $(VENV) .matrix build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
