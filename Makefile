# The commands of the project. `make help` lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint types unit real bench lock clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP)  ## make the virtual environment from the locked dependencies

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=..."; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --only-binary :all: -r requirements/dev.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $(STAMP)

demo: $(STAMP)  ## show the whole job on an embedded registry (RELEASES=DIR: on real releases)
	@$(BIN)/flux-manifests demo $(if $(RELEASES),--releases $(RELEASES))

test: lint types unit  ## every check and test that needs no other program

lint: $(STAMP)  ## style and the arrows between the rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)  ## static types
	$(BIN)/mypy

unit: $(STAMP)  ## unit, contract and end-to-end tests; 100 % of the branches of the pure rooms
	$(BIN)/coverage run -m pytest
	$(BIN)/coverage report --include='ci_automation/artifact/*,ci_automation/policy/*,ci_automation/report/*,ci_automation/flux/*' --omit='ci_automation/flux/sources/*' --fail-under=100
	@$(BIN)/python tests/left_out.py

real: $(STAMP)  ## the same against real registries, cosign, flux and a cluster's control plane (needs Go and release data)
	$(BIN)/python tests/real/peers.py
	$(BIN)/pytest tests/real

bench: $(STAMP)  ## the figures of the README, beside the real programs'
	$(BIN)/python tests/real/peers.py
	$(BIN)/python tests/real/bench.py

lock:  ## renew the locked dependencies (needs uv)
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --custom-compile-command 'make lock' pyproject.toml -o requirements/runtime.txt
	uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --group dev -c requirements/runtime.txt pyproject.toml requirements/build.in -o requirements/dev.txt

clean:  ## remove what setup and tests made
	rm -rf $(VENV) .coverage .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
