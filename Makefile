# Everything runs in a virtual environment inside the checkout, pinned by constraints.txt.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: demo test slow fuzz lint regress bench clean

demo: $(READY)            ## from a fresh machine to a report of one training step of ResNet-18
	@mkdir -p out
	$(BIN)/monet run resnet18 --hardware edge-tpu --optimizer adam --report out/resnet18.html --json out/resnet18.json
	@echo "open out/resnet18.html"

test: $(READY) lint       ## lint, types, import boundaries, tests
	$(BIN)/python -m pytest -n 2

slow: $(READY)            ## the second tier: large random grids, whole searches, studies
	$(BIN)/python -m pytest -n 2 -m slow

fuzz: $(READY)            ## 10,000 cases of hostile input: files, plans, stores, options, signals; about 10 minutes
	$(BIN)/python -m tests.fuzz 10000

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

regress: $(READY)         ## rewrite the figures and texts of tests/regression; read the diff before you commit it
	$(BIN)/python -m tests.regression.rewrite

bench: $(READY)           ## what the performance figures in the README come from
	$(BIN)/python benchmarks/build_graphs.py
	$(BIN)/python benchmarks/mapper_search_time.py
	$(BIN)/python benchmarks/mapper_against_zigzag.py
	$(BIN)/python benchmarks/schedule.py
	$(BIN)/python benchmarks/fusion.py
	$(BIN)/python benchmarks/explore.py

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[test,lint]"
	$(BIN)/python -m compileall -q src
	$(BIN)/python -m monet.compiled
	@touch $@

clean:
	rm -rf $(VENV) out .pytest_cache .mypy_cache .ruff_cache .hypothesis
