# make run    set up, then run the example app's main job
# make test   set up, then run all tests; with SHUFFLE=7, in another order
# make check  formatting, lint, strict types, tests
# make bench  side by side with peers; writes docs/benchmarks.md
# make site   all docs as static pages, in build/site
# make guard  whether the hot paths got heavier, by instructions
# make fuzz   every parser, for SECONDS=60
# make chaos  a fleet under load, of which something fails ROUNDS=100 times; as root
# make lock   pins with hashes in requirements/; make locked installs just those

# The system's Python, where it is new enough and can make environments: it is built with all optimisations, which one
# that was compiled at home mostly is not, and the tests take a tenth longer there. Else the first on the path.
PYTHON ?= $(shell /usr/bin/python3 -c "import ensurepip, sys; sys.exit(sys.version_info < (3, 11))" 2>/dev/null && echo /usr/bin/python3 || echo python3)
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
READY  := $(VENV)/.ready
TOUR   := $(VENV)/.tour
NODE   := tests/node/node_modules/.ready
MODELS := $(VENV)/models
SECONDS ?= 60
ROUNDS ?= 100

.PHONY: run test check lint format bench guard docs site fuzz chaos lock locked clean
.DEFAULT_GOAL := test

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Fairlead needs Python 3.11 or newer; '$(PYTHON)' is older. Set one: make PYTHON=python3.12" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { echo "Python's venv module is missing. On Debian or Ubuntu: apt-get install python3-venv" >&2; rm -rf $(VENV); exit 1; }

$(READY): pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV) with all that tests need, about 1 GB. This takes a few minutes, once." >&2
	@$(PIP) --editable '.[dev]'
	@$(BIN)/python -m compileall -q -j 0 src
	@touch $(TOUR) $@

# What the tour and the tutorial need is a tenth of what the tests do. Whoever writes the tutorial's tests inside the
# checkout runs them by the options in pyproject.toml, which want pytest-timeout and hypothesis.
$(TOUR): pyproject.toml | $(BIN)/python
	@echo "Setting up $(VENV). This takes a minute, once." >&2
	@$(PIP) --editable '.[plugins,serve]' pytest pytest-asyncio pytest-timeout hypothesis
	@touch $@

# The tour compiles a plugin: where the system has no C compiler, one comes as a package.
run: $(TOUR)
	@command -v cc >/dev/null || $(PIP) ziglang
	@$(BIN)/python examples/taskboard/tour.py

# Node comes with the development dependencies; its packages are the clients and judges of the surfaces' tests.
$(NODE): tests/node/package.json $(READY)
	@cd tests/node && PATH="$(CURDIR)/$(BIN):$$PATH" npm install --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error
	@touch $@

# Weights of two small models come once, so that no test needs a network.
$(MODELS)/.ready: $(READY)
	@FAIRLEAD_MODELS=$(MODELS) $(BIN)/fairlead models pull smollm2 minilm
	@touch $@

test: $(READY) $(NODE) $(MODELS)/.ready
	@tests/needs.sh
	@$(BIN)/python -m pytest --processes auto $(if $(SHUFFLE),--shuffle=$(SHUFFLE))

lint: $(READY)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

check: lint test

format: $(READY)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(READY)
	@$(BIN)/python docs/generate.py

site: $(READY)
	@$(BIN)/python docs/site.py

bench: $(READY)
	@tests/needs.sh wrk
	@$(BIN)/python benchmarks/run.py
	@$(BIN)/python docs/generate.py

guard: $(READY)
	@tests/needs.sh valgrind
	@$(BIN)/python benchmarks/guard.py

# With atheris (pip install 'fairlead[fuzz]') inputs are found by the lines that they reach.
fuzz: $(READY)
	@SECONDS=$(SECONDS) TARGET=$(TARGET) $(BIN)/python tests/fuzz/run.py

# Each run has other faults; SEED=N gives those of an earlier one again.
chaos: $(READY)
	@tests/needs.sh ip
	@for form in postgres nats; do $(BIN)/python tests/chaos/run.py --form $$form --rounds $(ROUNDS) $(if $(SEED),--seed $(SEED)) || exit 1; done

# Pins of every package with its hashes, for all platforms and Pythons that are supported.
lock: $(READY)
	@$(BIN)/python tests/locking.py $(BIN)/uv

# The same packages to the byte, in an environment of their own.
locked:
	@echo "Setting up .venv-locked from requirements/all.txt. This takes a minute or two." >&2
	@$(PYTHON) -m venv .venv-locked
	@.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/all.txt
	@.venv-locked/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation .
	@.venv-locked/bin/python -m pip check
	@echo "It is in .venv-locked: . .venv-locked/bin/activate" >&2

clean:
	rm -rf $(VENV) .venv-bench .venv-locked tests/node/node_modules dist build .mypy_cache .ruff_cache .pytest_cache
