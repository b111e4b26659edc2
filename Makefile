# Everything runs in .venv, installed from the locks in requirements/; `make help` lists what there is.
PYTHON ?=
WORKERS ?= 6
UPGRADE ?=
FULL ?=
ARGS ?=
# The tests run in parts, the longest first, as many at a time as WORKERS says. Each part is one process and
# imports only what it tests: collecting all tests takes longer than most parts. test-others runs all that no
# other part names.
SCHEMATHESIS := $(shell find tests -name test_schemathesis.py)
BROWSER_1 := $(wildcard tests/browser/test_[a-h]*.py)
BROWSER_2 := $(wildcard tests/browser/test_[i-l]*.py)
CLI_1 := $(wildcard tests/cli/test_[a-g]*.py)
MESSAGES := tests/relay/inspection tests/relay/detectors
SERVICES := tests/server tests/desk tests/agent tests/reviews tests/signing
IN_PARTS := $(SCHEMATHESIS) $(SERVICES) tests/hook tests/mcp tests/bench tests/browser tests/cli tests/clients tests/docs \
  tests/install tests/pages tests/relay
PARTS := test-services test-hook lint test-cli-2 test-relay test-cli-1 test-browser-3 test-browser-2 test-browser-1 \
  test-pages test-others test-docs test-mcp test-install test-messages test-clients test-schemathesis
# What the parts need besides Python packages. It is there before the first part starts: otherwise make starts the
# parts that need nothing, and the longest ones last.
PROGRAMS := browser redis pgbouncer load-generator node-packages
# A part says what it found when it ends, so that the parts' failures are not mixed.
GROUP_OUTPUT := $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)
# All extras but those of OWN_ENVIRONMENT in scripts/compat.py, which no lock can contain beside the others.
LOCKED_EXTRAS := ag-ui comprehend grpc langchain mcp openai-agents otel postgres presidio pydantic-ai redis relay server sqlite web-push
BIN := .venv/bin
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 \
  --generate-hashes --no-header --no-annotate $(UPGRADE)

# UV_PYTHON would outrank the virtual environment; without byte code on disk, every program that a test starts
# would compile all it imports.
unexport UV_PYTHON PYTHONDONTWRITEBYTECODE
.DEFAULT_GOAL := help
.PHONY: help demo test test-full compat compat-agents lint format docs gallery languages bench faults lock clean
.PHONY: $(PARTS) setup-base setup-test browser redis pgbouncer load-generator node-packages

help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 18

demo: setup-base ## Run the service with a case waiting for your answer
	$(BIN)/placet demo

test: ## Run every check; PYTHON=python3.12 picks the interpreter
	@$(MAKE) --no-print-directory --jobs=$(WORKERS) $(PROGRAMS)
	@$(MAKE) --no-print-directory --keep-going --jobs=$(WORKERS) $(GROUP_OUTPUT) PREPARED=1 $(PARTS)

test-full: ## Run every check on every combination of themes, sizes, languages, states and versions
	@$(MAKE) --no-print-directory test FULL=--full

compat: setup-test redis compat-agents ## Run each extra's tests on the lowest and the newest versions that it allows
	$(BIN)/python -m scripts.compat $(ARGS)

compat-agents: setup-test browser ## Try the gate in the newest Claude Code, Codex, OpenCode and Gemini CLI, without an account
	$(BIN)/python -m scripts.coding_agents

test-hook: TESTS = tests/hook
test-mcp: TESTS = tests/mcp tests/bench
test-browser-1: TESTS = $(BROWSER_1)
test-browser-2: TESTS = $(BROWSER_2)
test-browser-3: TESTS = tests/browser $(patsubst %,--ignore=%,$(BROWSER_1) $(BROWSER_2))
test-pages: TESTS = tests/pages
test-cli-1: TESTS = $(CLI_1)
test-cli-2: TESTS = tests/cli $(CLI_1:%=--ignore=%)
test-docs: TESTS = tests/docs
test-messages: TESTS = $(MESSAGES)
test-relay: TESTS = tests/relay $(patsubst %,--ignore=%,$(MESSAGES) $(SCHEMATHESIS))
test-install: TESTS = tests/install
test-clients: TESTS = tests/clients
test-services: TESTS = $(SERVICES) $(SCHEMATHESIS:%=--ignore=%)
test-schemathesis: TESTS = $(SCHEMATHESIS)
test-others: TESTS = tests $(IN_PARTS:%=--ignore=%)

ifndef PREPARED
test-hook: redis
test-mcp: load-generator
test-others: pgbouncer
test-clients: node-packages
test-browser-1 test-browser-2 test-browser-3 test-pages test-docs test-services: browser
lint $(filter test-%,$(PARTS)): setup-test
endif

$(filter test-%,$(PARTS)):
	$(BIN)/python -m pytest --quiet $(FULL) $(TESTS)

lint: ## Check style, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup-test ## Rewrite the code in the project's style
	$(BIN)/ruff check --fix --exit-zero
	$(BIN)/ruff format

docs: setup-test ## Redraw what the docs say about the code
	$(BIN)/python -m scripts.draw_docs

languages: setup-test ## Bring the catalogs of the pages up to date, and name what is to be translated
	$(BIN)/python -m scripts.languages

gallery: setup-test browser ## Photograph every page, state, theme and language onto one sheet
	$(BIN)/python -m scripts.gallery $(ARGS)

bench: setup-test browser load-generator ## Measure against a bare app, with few and with a million cases
	$(BIN)/python -m bench

faults: setup-test ## Kill the server under load and see that no answer is lost
	$(BIN)/python -m bench.faults

lock: setup-base ## Regenerate requirements/; UPGRADE=--upgrade moves to the newest versions
	$(COMPILE) --group setup --output-file requirements/uv.txt
	$(COMPILE) pyproject.toml --extra relay --group build --constraint requirements/uv.txt \
	  --output-file requirements/base.txt
	$(COMPILE) pyproject.toml --group build --group test $(LOCKED_EXTRAS:%=--extra %) --constraint requirements/base.txt \
	  --output-file requirements/test.txt

clean: ## Remove the virtual environment, caches and built files
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find src tests scripts bench -name __pycache__ -type d -prune -exec rm -rf {} +

setup-base:
	@scripts/setup base $(PYTHON)

setup-test: ## Install all that the examples and the checks need
	@scripts/setup test $(PYTHON)

browser: setup-test
	@$(BIN)/python -m scripts.browser

redis: setup-test
	@$(BIN)/python -m scripts.redis_server

pgbouncer: setup-test
	@$(BIN)/python -m scripts.pgbouncer

load-generator: setup-test
	@$(BIN)/python -m scripts.wrk

node-packages: setup-test
	@$(BIN)/python -m scripts.node_packages
