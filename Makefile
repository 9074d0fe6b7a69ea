# make demo   sets up, reports on the bundled CUDA project, migrates a copy, trains original and migrated on the emulated HPU
# make test   sets up, runs linters, types and tests
# make quick   linters, and the tests of what differs from the last commit, or from BASE=main
# make mutants   makes small changes to the sources, one at a time, and lists those that no related test notices
# make test-all   as test, with the permutations and long tests, and a process of its own for every program that a test starts
# make hostile   tries hostile input for longer: generated variants, and a thousand runs cut short
# make fuzz   draws programs, files, edits, settings and command lines for an hour, and lists what hpushim does not hold
# make bench   measures everything that is said of cost, in one run: a page with a chart in bench/
# make site   builds the pages: README, guides, rules and matrix, in site/
# make test-frameworks   builds environments with the training frameworks, runs what is said of them, prints one table
# make test-versions TORCH_VERSION=2.6.0 OTHER_PYTHON=python3.12   runs tests with another torch and Python, prints a row of a table
# All build their own virtual environment in .venv, the last two also some in .frameworks and .versions; nothing else is touched.

PYTHON ?= python3
# The emulated HPU needs a torch without CUDA. Where this name gives a CUDA build, point TORCH at a CPU build.
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
# Two workers fit the smallest machine that the tests are meant for; a third gains nothing on two cores.
WORKERS ?= 2

.PHONY: demo test quick test-all mutants test-frameworks test-versions lint types pytest bench hostile fuzz site clean

demo: $(VENV)/.ready
	$(BIN)/python tests/projects/demo.py

test: lint types pytest

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy
	$(BIN)/mypy -p codemods

PYTEST := HPUSHIM=off $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder

pytest: $(VENV)/.ready
	$(PYTEST) -m "not slow and not bench"

test-all: lint types
	HPUSHIM_TESTS=all $(PYTEST)

BASE ?= HEAD

quick: lint
	HPUSHIM=off $(BIN)/python tests/related.py $(BASE)

# Of the lines that a branch changes: make mutants MUTANTS="--changed main --count 20"
MUTANTS ?= --count 100

mutants: $(VENV)/.ready
	HPUSHIM=off $(BIN)/python tests/mutants.py $(MUTANTS)

# Releases that exclude each other: the newest, the last Lightning that knew Gaudi, Optimum with the Transformers that it asks for.
FRAMEWORKS := .frameworks
# Some of the tests: make test-frameworks FRAMEWORK_TESTS="--results .frameworks/found.json tests/frameworks/test_deepspeed.py";
# what earlier parts have found is kept in the file, and is in the table.
FRAMEWORK_TESTS ?=
NEWEST := accelerate timm transformers lightning pytorch-ignite deepspeed "ray[train]" kubernetes-validate jsonschema
LAST := "lightning<2.5.6" lightning-habana
OPTIMUM := optimum-habana==1.21.2 transformers==4.55.4 accelerate==1.10.1 optimum==2.0.0 diffusers==0.35.1 torchvision
FRAMEWORK_ENVIRONMENTS := $(FRAMEWORKS)/newest/.ready $(FRAMEWORKS)/last/.ready $(FRAMEWORKS)/optimum/.ready
EMPTY :=
FRAMEWORK_PYTHONS := $(subst $(EMPTY) $(EMPTY),:,$(FRAMEWORK_ENVIRONMENTS:%/.ready=$(CURDIR)/%/bin/python))

test-frameworks: $(VENV)/.ready $(FRAMEWORK_ENVIRONMENTS)
	HPUSHIM=off HPUSHIM_FRAMEWORKS_PYTHON=$(FRAMEWORK_PYTHONS) $(BIN)/python tests/frameworks/table.py $(FRAMEWORK_TESTS)

$(FRAMEWORKS)/newest/.ready: PACKAGES = $(NEWEST)
$(FRAMEWORKS)/last/.ready: PACKAGES = $(LAST)
$(FRAMEWORKS)/optimum/.ready: PACKAGES = $(OPTIMUM)
$(FRAMEWORKS)/%/.ready: pyproject.toml Makefile
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" -e ".[torch]" $(PACKAGES)
	$(@D)/bin/python -m pip show --quiet torchvision 2>/dev/null && HPUSHIM=off $(@D)/bin/python tests/frameworks/torchvision_ops.py || true
	touch $@

# Some of the tests: make test-versions VERSION_TESTS="tests/emulator/api -x".
TORCH_VERSION ?= 2.6.0
OTHER_PYTHON ?= $(PYTHON)
VERSION_TESTS ?=

test-versions:
	$(PYTHON) tests/versions/run.py --torch $(TORCH_VERSION) --python $(OTHER_PYTHON) $(VERSION_TESTS)

# Over other projects, or a part: make bench BENCH="--tree ~/code/a ~/code/b --only processes"
BENCH ?=

bench: $(VENV)/.ready
	HPUSHIM=off $(BIN)/python tests/bench/page.py --output bench $(BENCH)
	HPUSHIM=off $(BIN)/python -m pytest tests/bench -m bench -s

hostile: $(VENV)/.ready
	HPUSHIM=off HPUSHIM_HOSTILE_EXAMPLES=3000 $(BIN)/python -m pytest tests/hostile -n $(WORKERS) --hostile-table hostile.md
	$(BIN)/python tests/hostile/kills.py --count 1000

# With files of other projects to change: make fuzz FUZZ="--seconds 7200 --files ~/code/*/ --keep found"
FUZZ ?= --seconds 3600

fuzz: $(VENV)/.ready
	HPUSHIM=off $(BIN)/python tests/hostile/fuzz.py $(FUZZ)

site: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[site]"
	$(BIN)/python docs/build.py

$(VENV)/.ready: pyproject.toml Makefile
	$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 10) else "hpushim needs Python 3.10 or newer; found %d.%d: make PYTHON=python3.11 …" % v[:2])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[torch,dev]"
	touch $@

clean:
	rm -rf $(VENV) $(FRAMEWORKS) .versions .demo hostile.md bench site build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
