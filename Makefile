# Everything runs in .venv, which is set up on first use and again whenever pyproject.toml, the file with the version,
# or the sources of the native kernel change.
# `make demo PYTHON=python3.13` chooses the interpreter that the environment is made with.

PYTHON ?= python3
PYTHONS ?= $(PYTHON)
VENV := .venv
BIN := $(VENV)/bin
PROCESSES := $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1)
SCHEMA := $(BIN)/check-jsonschema --quiet --builtin-schema
CRATE := budgetfrontier/engine/native
PIP := PYTHONWARNINGS=ignore $(BIN)/python -m pip --disable-pip-version-check install --quiet

# One folder for all that is compiled: environments, wheels and the crate's own tests have the same dependencies.
export CARGO_TARGET_DIR ?= $(CURDIR)/$(CRATE)/target

.PHONY: help demo test test-python-kernel full check crate workflows format proto sync dist wheel-check release docs linkcheck screenshots bench growth crawl-bench integrations-bench host-bench instructions plots faults properties fuzz-kernel mutants soak cluster sites heritrix lowest clean
.DELETE_ON_ERROR:

help:
	@echo "make demo         crawl a small synthetic web under budgets, and show the reports"
	@echo "make test         run all tests, on all cores (ARGS='-k budget' goes to pytest)"
	@echo "make test-python-kernel  run the tests of the engine without the native kernel"
	@echo "make full         run the tests that make test runs in small at their full size (ARGS go to pytest)"
	@echo "make check        lint, strict types, import contract, generated clients, native kernel, workflows"
	@echo "make crate        check the format of the native kernel, lint it and its fuzz targets, and run its own tests (needs cargo)"
	@echo "make workflows    check what .github and Read the Docs are given (actionlint needs Go)"
	@echo "make format       sort imports and format the code"
	@echo "make proto        generate what is made from urlfrontier.proto"
	@echo "make sync         generate the synchronous clients from those for asyncio"
	@echo "make dist         build the source distribution, and from it the wheel without the native kernel, and with it (needs cargo)"
	@echo "make wheel-check  build the wheels, install each elsewhere, run the demo and a server from there (PYTHONS='python3.12 python3.13')"
	@echo "make release      prove all that a release needs, and tag it (DRY_RUN=1: no tag); see RELEASING.md"
	@echo "make docs         build docs/_build/html"
	@echo "make linkcheck    ask for every page elsewhere that the documentation links to (needs the Internet)"
	@echo "make screenshots  crawl the demo's web, and take the pictures of manual and README (needs chromium; ARGS='--into FOLDER')"
	@echo "make bench        run the benchmarks"
	@echo "make growth       measure up to ten million URLs (ARGS='--scale 0.01' takes seconds)"
	@echo "make crawl-bench  crawl 20,000 pages with budgetfrontier and with Scrapy, in turn"
	@echo "make integrations-bench  compare the schedulers for Scrapy and asyncio with others, and measure leases"
	@echo "make host-bench   measure one host with slow callbacks and pipelines in Scrapy, with both schedulers"
	@echo "make instructions  count the instructions of each URI under callgrind (needs valgrind)"
	@echo "make plots        update the figures in docs/explanation from the newest measurements"
	@echo "make faults       inject hundreds of faults: kills, full disks, damage (ARGS='--scale 0.1' takes a minute)"
	@echo "make properties   draw ten times as many examples for each property as CI, at random"
	@echo "make fuzz-kernel  fuzz the native kernel (needs cargo-fuzz; ARGS='batches -max_total_time=600')"
	@echo "make mutants      change rules and engine in one place at a time, and print the changes that no test notices"
	@echo "make soak         close and reopen random crawls, and truncate their files (ARGS='--closes 50' takes a minute)"
	@echo "make cluster      kill workers, crawlers and the broker of a crawl in partitions for five minutes (needs Java)"
	@echo "make sites        crawl documentation from Debian packages, compared with wget --mirror"
	@echo "make heritrix     kill Heritrix in the middle of a crawl, and finish it (needs Java 17 and Maven)"
	@echo "make lowest       run the tests with the lowest versions of the dependencies that pyproject.toml allows"
	@echo "make clean        remove build results, but not .venv"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.12 ...")'
	$(PYTHON) -m venv $(VENV)

KERNEL := $(CRATE)/build_backend.py $(wildcard $(CRATE)/Cargo.*) $(shell find $(CRATE)/src -name '*.rs')

# One stamp for each extra: the demo needs fewer packages than the tests. `.stamp-dev,docs` stands for both of its own.
# Where there is cargo, a kernel that cannot be compiled is an error, lest the tests use Python's unnoticed;
# BUDGETFRONTIER_KERNEL=python does without it.
COMMA := ,
$(VENV)/.stamp-%: pyproject.toml budgetfrontier/__init__.py $(KERNEL) | $(BIN)/python
	BUDGETFRONTIER_KERNEL=$${BUDGETFRONTIER_KERNEL-$(if $(shell command -v cargo),native)} $(PIP) --editable '.[$*]'
	@touch $(addprefix $(VENV)/.stamp-,$(subst $(COMMA), ,$*))

demo: $(VENV)/.stamp-crawl $(VENV)/.stamp-console
	$(BIN)/budgetfrontier demo $(ARGS)

# A process more than there are cores, because some tests wait; idle ones take over tests from busy ones.
# Bytecode is written whatever the environment says, because the tests start Python hundreds of times.
test: $(VENV)/.stamp-dev
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses=$(PROCESSES) --dist=worksteal $(ARGS)

# The engine's own tests, and those of what it stands on and of the crashes that it survives.
test-python-kernel: $(VENV)/.stamp-dev
	BUDGETFRONTIER_KERNEL=python PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses=$(PROCESSES) --dist=worksteal tests/engine tests/stateful tests/crash $(ARGS)

# Kills at every line and every page, more kills, more requests at once.
full: $(VENV)/.stamp-dev
	FULL_SIZE=true PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m full_size --numprocesses=$(PROCESSES) --dist=worksteal $(ARGS)

check: $(VENV)/.stamp-dev crate workflows
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m tests.remote.generate --check

# The native kernel is optional, but in CI it must be there.
crate:
	@if command -v cargo >/dev/null; then \
	    set -ex; cd $(CRATE); cargo fmt --check; cargo clippy --quiet --locked --all-targets -- --deny warnings; \
	    cargo test --quiet --locked; \
	    cd $(CURDIR)/tests/fuzz/kernel; cargo fmt --check; cargo clippy --quiet --locked -- --deny warnings; \
	else echo "make crate: the native kernel was NOT checked: cargo is not installed, and Rust 1.85 or newer is needed"; [ -z "$$CI" ]; fi

# Go brings actionlint, which pip cannot bring: in CI it must.
ACTIONLINT := $(VENV)/actionlint-1.7.12
$(ACTIONLINT)/actionlint: | $(BIN)/python
	GOBIN=$(CURDIR)/$(@D) go install github.com/rhysd/actionlint/cmd/actionlint@v$(lastword $(subst -, ,$(@D)))

workflows: $(VENV)/.stamp-dev
	$(SCHEMA) vendor.github-workflows .github/workflows/*.yml
	$(SCHEMA) custom.github-workflows-require-timeout .github/workflows/*.yml
	$(SCHEMA) vendor.dependabot .github/dependabot.yml
	$(SCHEMA) vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(SCHEMA) vendor.github-issue-forms $(filter-out %/config.yml,$(wildcard .github/ISSUE_TEMPLATE/*.yml))
	$(SCHEMA) vendor.readthedocs .readthedocs.yaml
	@if command -v go >/dev/null; then $(MAKE) --no-print-directory --silent $(ACTIONLINT)/actionlint && $(ACTIONLINT)/actionlint; \
	else echo "make workflows: actionlint was NOT run: Go is not installed, and 1.21 or newer is needed"; [ -z "$$CI" ]; fi

format: $(VENV)/.stamp-dev
	$(BIN)/ruff check --select I --fix .
	$(BIN)/ruff format .

proto: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.server.urlfrontier.generate

sync: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.remote.generate

# The wheels are built from the source distribution, so that all are known to build. That with the kernel is for this
# machine: those that are published are built in CI, for old ones, too.
dist: $(VENV)/.stamp-dev
	rm -rf build dist
	BUDGETFRONTIER_KERNEL=python $(BIN)/python -m build --outdir dist
	@if command -v cargo >/dev/null; then \
	    set -ex; BUDGETFRONTIER_KERNEL=native $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist dist/*.tar.gz; \
	else echo "make dist: the wheel with the native kernel was NOT built: cargo is not installed"; [ -z "$$CI" ]; fi
	$(BIN)/twine check --strict dist/*

wheel-check: dist
	for wheel in dist/*.whl; do .ci/try-wheel "$$wheel" $(PYTHONS) || exit; done

release:
	.ci/release

docs: $(VENV)/.stamp-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

linkcheck: $(VENV)/.stamp-docs
	$(BIN)/python -m sphinx --keep-going -q -b linkcheck docs docs/_build/linkcheck

screenshots: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.tools.console.screenshots $(ARGS)

bench: $(VENV)/.stamp-bench
	$(BIN)/python -m benchmarks $(ARGS)

growth: $(VENV)/.stamp-bench
	$(BIN)/python -m benchmarks.growth $(ARGS)

crawl-bench: $(VENV)/.stamp-crawl $(VENV)/.stamp-bench
	$(BIN)/python -m benchmarks.crawl $(ARGS)

integrations-bench: $(VENV)/.stamp-bench
	$(BIN)/python -m benchmarks.integrations $(ARGS)

host-bench: $(VENV)/.stamp-bench
	$(BIN)/python -m benchmarks.one_host $(ARGS)

instructions: $(VENV)/.stamp-bench
	$(BIN)/python -m benchmarks.instructions $(ARGS)

plots: $(VENV)/.stamp-bench
	$(BIN)/python -m benchmarks.publish $(ARGS)

faults: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.crash.campaign $(ARGS)

cluster: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.cluster.chaos $(ARGS)

# CI draws the same examples each time; here they are others each time.
properties: $(VENV)/.stamp-dev
	HYPOTHESIS_PROFILE=many $(BIN)/python -m pytest -m hypothesis --numprocesses=$(PROCESSES) --dist=worksteal $(ARGS)

fuzz-kernel: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.fuzz.kernel $(or $(ARGS),urls -max_total_time=60)

mutants: $(VENV)/.stamp-dev
	$(PIP) 'mutmut>=3.8,<4'
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m tests.mutants $(ARGS)

soak: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.crash.soak $(ARGS)

sites: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.sites $(ARGS)

heritrix: $(VENV)/.stamp-dev
	$(BIN)/python -m tests.heritrix $(ARGS)

# Without two tools that need later versions than the package does: grpcio-tools (of grpcio) and qcrawl (of rich). The
# measurements are for the newest versions.
LOWEST := build/lowest/bin
lowest:
	$(PYTHON) -m venv build/lowest
	$(LOWEST)/python -m pip --disable-pip-version-check install --quiet uv
	printf 'grpcio-tools\nqcrawl\n' >build/lowest/excluded
	$(LOWEST)/uv pip install --quiet --python $(LOWEST)/python --resolution lowest-direct --excludes build/lowest/excluded --requirements pyproject.toml --extra dev
	$(LOWEST)/uv pip install --quiet --python $(LOWEST)/python --no-deps --editable .
	PYTHONDONTWRITEBYTECODE= $(LOWEST)/python -m pytest --ignore=tests/benchmarks --numprocesses=$(PROCESSES) --dist=worksteal $(ARGS)

clean:
	rm -rf build dist docs/_build $(CRATE)/target *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
