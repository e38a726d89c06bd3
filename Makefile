# What a newcomer runs. `make run` and `make test` set up everything they need by themselves, in
# .venv and .peers; stamp files make a second run start at once.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PORT ?= 9092
DATA ?= barnabas-data
TESTS ?= tests
ROUNDS ?= 3
QUICK ?=
SEED ?= 0
SEEDS ?= 1000
NODES ?=
COUNT ?= 20000
CONNECTOR ?= kafka

.DEFAULT_GOAL := help
.PHONY: help setup run test lint peers bench soak search chaos clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  PYTHON=python3.12, PORT=9092, DATA=barnabas-data, TESTS=tests/log, ROUNDS=3, QUICK=1, SEEDS=1000"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Barnabas needs Python 3.11 or later; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

# An installed package has its bytecode; an editable one gets it here, also where the environment
# tells Python not to write any.
COMPILE := $(BIN)/python -m compileall -q src

# The package is installed editable, its kernels built in place (and rebuilt when they change);
# without a compiler the same sources run interpreted.
KERNELS := $(wildcard src/barnabas/*/kernels*.p*)

$(VENV)/.installed: pyproject.toml setup.py $(KERNELS) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@$(COMPILE)
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.installed-spark: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark]'
	@touch $@

setup: $(VENV)/.installed ## the package in .venv, kernels compiled if a compiler is there

run: $(VENV)/.installed ## a broker on localhost:9092, its data in barnabas-data
	$(BIN)/barnabas up --port $(PORT) --data $(DATA)

peers: ## fetch the other projects that tests and benchmarks talk to
	@scripts/fetch-peers

lint: $(VENV)/.installed-dev ## ruff and mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint peers ## everything: lint, then all tests (TESTS=tests/log for a part)
	@$(COMPILE)
	$(BIN)/python -m pytest $(TESTS)

bench: $(VENV)/.installed-dev peers ## Barnabas and Apache Kafka side by side (ROUNDS=3, QUICK=1)
	@$(COMPILE)
	$(BIN)/python -m bench --cluster --clients --rounds $(ROUNDS) $(if $(QUICK),--quick)

soak: $(VENV)/.installed ## simulated clusters with faults on all cores (SEEDS=1000, SEED=0, NODES=3)
	@$(BIN)/python -m barnabas.sim --seed $(SEED) --seeds $(SEEDS) $(if $(NODES),--nodes $(NODES))

search: $(VENV)/.installed-dev ## hypothesis with new examples (TESTS=tests/log for a part)
	BARNABAS_EXAMPLES=search $(BIN)/python -m pytest $(TESTS) --ignore tests/peers --timeout 3000

chaos: $(VENV)/.installed-dev ## node processes killed, frozen and cut off under load (ROUNDS=3)
	BARNABAS_CHAOS_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -s tests/peers/test_cluster_chaos.py tests/peers/test_cluster_cuts.py

spark: $(VENV)/.installed-dev peers ## the tests that start Spark: jobs, sinks, driver and broker killed
	BARNABAS_SPARK=1 BARNABAS_SPARK_LONG=1 $(BIN)/python -m pytest tests/spark

# Spark's own connector is a peer: its jars come with `make peers`.
demo: $(VENV)/.installed-spark peers ## broker, traffic and all five Spark jobs, judged against the truth (COUNT=20000)
	$(BIN)/barnabas pipeline demo --seed $(SEED) --count $(COUNT) --connector $(CONNECTOR) \
		$(foreach jar,$(wildcard .peers/spark-kafka/*.jar),--jar $(jar))

clean: ## remove what was built; keeps .peers and barnabas-data
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find src -name '*.so' -delete -o -name '*.c' -delete
	find . -name __pycache__ -type d -not -path './.peers/*' -prune -exec rm -rf {} +
