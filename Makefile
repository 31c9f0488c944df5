# make demo   XTCL on Cora, from nothing to a scored run
# make quick  the tests that are not marked slow, two minutes; no style, no types
# make test   everything that must hold
# make fuzz   tests of made-up inputs, with twelve times as many
# make large  a fit of 100,000 nodes under a limit of memory, in minutes
# make lint   style and types only
# make bench  speed and memory, against a peer in the same run
# make docs   the documentation as a site, in site/

PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo quick test fuzz large lint bench docs clean

.venv/core: pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("xtcl needs Python 3.11 or newer" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/dev: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

demo: .venv/core
	rm -rf runs/demo
	$(BIN)/xtcl fit cora --task nodes --encoder gcn --seed 0 --out runs/demo --compare logistic,gcn

lint: .venv/dev
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

quick: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m "not slow and not large"

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2

fuzz: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m hypothesis --hypothesis-profile thorough

large: .venv/dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m large

bench: .venv/dev
	$(BIN)/python benchmarks/sampler_vs_xgboost.py
	$(BIN)/python benchmarks/fit.py
	$(BIN)/python benchmarks/warm_store.py --datasets cora
	$(BIN)/python benchmarks/read_tables.py --nodes 200000 --edges 2000000
	$(BIN)/python benchmarks/report_open.py

docs: .venv/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

clean:
	rm -rf .venv runs site .mypy_cache .ruff_cache .pytest_cache .hypothesis
