# Magnetar's commands. `make help` lists them. Everything installs itself from the lock files.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Tests and proofs start Python hundreds of times: it keeps what it compiled, also where the environment forbids it.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help

help: ## list the commands
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 15

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("Magnetar needs Python 3.11 to 3.14; $(PYTHON) is " + sys.version.split()[0] + ". Set PYTHON=python3.11") if not (3, 11) <= sys.version_info < (3, 15) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: requirements/run.lock pyproject.toml | $(VENV)/bin/python
	@echo "Installing into $(VENV) (once)…"
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/run.lock
	$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements/dev.lock $(VENV)/.run
	$(BIN)/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.lock
	@touch $@

run: $(VENV)/.run ## start a gateway on RocksDB: 127.0.0.1:9092, data in ./data; ARGS="--help" for more
	@exec $(BIN)/magnetar serve $(ARGS)

lint: $(VENV)/.dev ## format, lint, types, import rules: half a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

check: lint ## what lint does, and unit tests: a few minutes
	$(BIN)/pytest -n 2 -m "not integration and not spark"

test: $(VENV)/.dev ## everything: real servers, real clients, real Spark; sixteen to twenty minutes on 2 cores
	$(BIN)/python -m compat.tools
	$(BIN)/pytest -n 3 --dist loadfile --durations 15

demo: $(VENV)/.dev ## a tour of five minutes or less: produce, consume, queues, Spark, archive, replay, the console
	$(BIN)/python -m compat.demo

demo-queue: $(VENV)/.dev ## a day of a queue topic in a minute: a crash, poison, a gateway kill; draws .cache/demo-queue.svg
	$(BIN)/python -m compat.day $(ARGS)

bench: $(VENV)/.dev ## Magnetar and real Apache Kafka side by side, by turns; writes docs/PERFORMANCE.md
	$(BIN)/python -m compat.bench $(ARGS)

compat: $(VENV)/.dev ## every client family against a gateway; writes docs/COMPATIBILITY.md; ARGS="--client go-franz"
	$(BIN)/python -m compat.harness run --report $(ARGS)

compat-secured: $(VENV)/.dev ## a short script of every client over TLS, with each way to log in; ARGS="--client c-kcat"
	$(BIN)/python -m compat.harness run --secured all --report $(ARGS)

compat-admin: $(VENV)/.dev ## every verb of Pulsar's own pulsar-admin against a gateway; ARGS="--noun topics --verb skip"
	$(BIN)/python -m compat.admin run --report $(ARGS)

compat-registry: $(VENV)/.dev ## a schema registry whose topic is compacted under it, restarts; ARGS="--git FOLDER" for a copy of its source
	$(BIN)/python -m compat.registry $(ARGS)

compare: $(VENV)/.dev ## the answers of real Apache Kafka and of Magnetar, byte for byte; ARGS=--authorizer: to users of different rights; ARGS=--admin: of Apache Pulsar
	$(BIN)/python -m compat.compare $(or $(ARGS),--report docs/ANSWERS.md)

soak: $(VENV)/.dev ## SIGKILL under load, 200 times and at every numbered step: nothing acknowledged is lost
	$(BIN)/python -m tests.proofs.soak $(ARGS)

fuzz: $(VENV)/.dev ## millions of wrong frames and logins against the codec and live gateways, fifteen minutes; ARGS="--seed 7"
	$(BIN)/python -m tests.proofs.fuzz $(ARGS)

idle: $(VENV)/.dev ## ten thousand idle clients over TLS: what each costs; ARGS="--clients 1000 --plain"
	$(BIN)/python -m tests.proofs.idle $(ARGS)

roundtrip: $(VENV)/.dev ## a million records to Parquet and back, compared
	$(BIN)/python -m compat.spark.roundtrip --records 1000000 $(ARGS)

powercut: $(VENV)/.dev ## the power fails at 3,000 moments: nothing acknowledged is lost; ARGS="--help" for more
	$(BIN)/python -m tests.proofs.powercut $(ARGS)

simulate: $(VENV)/.dev ## thousands of consumers under virtual time: every promise of subscriptions; ARGS="--seeds 50"
	$(BIN)/python -m tests.proofs.simulate $(ARGS)

interplay: $(VENV)/.dev ## policies that change under a topic in use, against an oracle: minutes; ARGS="--first 17 --seeds 1"
	$(BIN)/python -m tests.proofs.interplay $(ARGS)

drain: $(VENV)/.dev ## Spark drains a queue topic and is killed at every step: acknowledged means written; ARGS="--kills 6"
	$(BIN)/python -m tests.proofs.drain $(ARGS)

streams: $(VENV)/.dev ## Kafka Streams, exactly once, over a virtual day, killed ten times: sums are exact; ARGS="--seed 7"
	$(BIN)/python -m tests.proofs.streams $(ARGS)

stretches: $(VENV)/.dev ## no page and no call of the admin API holds the event loop for long: a minute; ARGS="--where"
	$(BIN)/python -m tests.proofs.stretches $(ARGS)

topics: $(VENV)/.dev ## a million topics: made, listed, scraped, restarted within 300 MiB; ARGS="--topics 10000"
	$(BIN)/python -m tests.proofs.topics $(ARGS)

rights: $(VENV)/.dev ## what each API needs, asked of Apache Kafka with its own authorizer; ARGS="--only FETCH"
	$(BIN)/python -m tests.proofs.rights $(ARGS)

explore: $(VENV)/.dev ## new examples for every property and model machine, 20 times as many; ARGS="--help" for more
	$(BIN)/python -m tests.proofs.explore $(ARGS)

pythons: $(VENV)/.dev ## unit tests on every Python that is promised and here; PYTHONS="~/python3.14/bin/python" for more
	$(BIN)/python -m tests.proofs.pythons $(foreach python,$(PYTHONS),--python $(python)) $(ARGS)

fmt: $(VENV)/.dev ## format the code and sort its imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(VENV)/audit/.done: requirements/audit.lock | $(VENV)/bin/python
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/pip install -q --disable-pip-version-check --require-hashes -r requirements/audit.lock
	@touch $@

audit: $(VENV)/audit/.done ## known weaknesses of what a gateway runs on (asks pypi.org), by the lock file
	$(VENV)/audit/bin/pip-audit --strict --require-hashes --disable-pip -r requirements/run.lock $(ARGS)

sbom: $(VENV)/audit/.done ## what a gateway runs on as CycloneDX, with hashes: dist/magnetar.cdx.json
	@mkdir -p dist
	$(VENV)/audit/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-format JSON --output-file dist/magnetar.cdx.json requirements/run.lock
	@echo "dist/magnetar.cdx.json: $$($(PYTHON) -c 'import json; print(len(json.load(open("dist/magnetar.cdx.json"))["components"]))') components"

lock: ## renew the lock files from requirements/*.in
	$(PYTHON) -m pip install -q uv
	for set in run dev audit; do $(PYTHON) -m uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header requirements/$$set.in -o requirements/$$set.lock; done

.PHONY: stretches audit sbom compare compat-secured compat-registry compat-admin help run lint check test demo demo-queue bench compat soak fuzz idle roundtrip fmt lock powercut simulate interplay topics explore rights pythons drain streams
