# The commands of the project. `make help` lists them.
PYTHON  ?= python3
VENV    := .venv
BIN     := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PROGRAM := $(VENV)/.program
STAMP   := $(VENV)/.installed

# Where a machine forbids Python to keep bytecode, each process that a test starts would compile the program again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo image package test lint types unit real docs bench lock clean

help:  ## list the commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup: $(STAMP)  ## make the virtual environment from the locked dependencies

# The demo needs the program alone, which is a third of what the tests need.
$(PROGRAM): requirements/runtime.txt requirements/build.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; set PYTHON=..."; exit 2; }
	@echo "Installing the program into $(VENV), once: less than a minute"
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --require-hashes --only-binary :all: -r requirements/runtime.txt -r requirements/build.txt
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $(PROGRAM)

$(STAMP): $(PROGRAM) requirements/dev.txt
	@echo "Installing what checks and tests need into $(VENV), once: about a minute"
	@$(INSTALL) --require-hashes --only-binary :all: -r requirements/dev.txt
	@touch $(STAMP)

demo: $(PROGRAM)  ## show the whole job on an embedded registry (RELEASES=DIR: on real releases)
	@$(BIN)/flux-manifests demo $(if $(RELEASES),--releases $(RELEASES))

# ENGINE=docker, IMAGE=NAME:TAG, and BUILD for more of the builder's options, such as --build-arg BASE=...
ENGINE    ?= podman
IMAGE     ?= flux-manifests:dev
KUSTOMIZE := build/image/kustomize

image: $(KUSTOMIZE)  ## build the action's image, and one for cloud KMS (its tag ends in -kms)
	$(ENGINE) build $(BUILD) --build-context kustomize=$(<D) --tag $(IMAGE) .
	$(ENGINE) build $(BUILD) --build-context kustomize=$(<D) --build-arg REQUIREMENTS=kms --tag $(IMAGE)-kms .

# Built from its sources, which Go's checksum database verifies.
$(KUSTOMIZE): Makefile
	GOBIN=$(CURDIR)/$(@D) CGO_ENABLED=0 go install -trimpath -ldflags '-s -w' sigs.k8s.io/kustomize/kustomize/v5@v5.8.2

package: $(STAMP)  ## build the wheel and the source archive in dist, and check both
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist
	$(BIN)/twine check --strict dist/*
	$(BIN)/check-wheel-contents dist/*.whl

# Tests store thousands of small files safely; in memory, where there is enough, that takes no time.
MEMORY := $(shell grep -qE '^tmpfs /dev/shm .*noexec' /proc/mounts 2>/dev/null || \
	df -k /dev/shm 2>/dev/null | awk 'NR == 2 && $$4 > 4000000 {print "/dev/shm"}')
unit: export PYTEST_DEBUG_TEMPROOT = $(MEMORY)

test: lint  ## run every check and test that needs no other program
	@$(MAKE) --no-print-directory --jobs 2 types unit

lint: $(STAMP)  ## check the style, and the imports between rooms
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(STAMP)  ## check the static types
	$(BIN)/mypy

unit: $(STAMP)  ## run unit, contract and end-to-end tests; unit tests cover all branches of the pure rooms
	$(BIN)/pytest tests/unit --numprocesses auto --dist worksteal --cov
	$(BIN)/pytest tests/contract tests/e2e --numprocesses auto --dist worksteal
	@$(BIN)/python tests/left_out.py

# Tests of clusters and containers wait for half of their time, so there is one worker more than cores.
WORKERS := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)

real: $(STAMP)  ## run the tests against real registries, cosign, flux, a cluster's control plane and containers (needs Go, podman and release data; EVERY=1: all kills)
	$(BIN)/python tests/real/peers.py
	$(BIN)/pytest tests/real --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder

docs: $(STAMP)  ## make the reference from the code, the site of the documents in build/docs, and man pages in build/man
	$(BIN)/python -m tests.unit.docs.generated
	$(BIN)/sphinx-build -q -W --keep-going -b html docs build/docs
	$(BIN)/sphinx-build -q -W --keep-going -b man docs build/man
	@echo "The site is in build/docs/README.html; its search needs no server. The man pages are in build/man."

bench: $(STAMP)  ## measure the figures of docs/reference/figures.md, beside the real programs
	$(BIN)/python tests/real/peers.py
	$(BIN)/python tests/real/bench.py

lock: $(STAMP)  ## renew the locked dependencies
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-strip-extras --custom-compile-command 'make lock' pyproject.toml -o requirements/runtime.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-strip-extras --group dev -c requirements/runtime.txt pyproject.toml requirements/build.in -o requirements/dev.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-strip-extras --extra kms -c requirements/runtime.txt -c requirements/dev.txt pyproject.toml -o requirements/kms.txt
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header --no-emit-index-url --no-strip-extras -c requirements/dev.txt requirements/build.in -o requirements/build.txt

clean:  ## remove the files that setup and tests made
	rm -rf $(VENV) .coverage .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
