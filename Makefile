# make demo   a first result on real data, in a virtual environment of its own
# make test   the tests (make test-slow: those that start clusters, browsers and long runs)
# make lint   what a maintainer checks besides: style, types, layering, docstrings
# make coverage   which lines of the package the tests reach (make coverage-kernels: of the kernels, run as plain Python)
# make package    the sdist and the wheel, tried in a fresh environment (make sdist: the sdist alone)
# make check-repository   sp-repo-review and zizmor: is the repository as the ecosystem expects it?
# make bench  speed and accuracy against peers, some fifteen minutes (bench-full: everything); see docs/benchmarks.md
# make bench-compare BASE=main   is the working tree slower than a revision?
# make journeys  what ten kinds of new users type, and how long it takes until they have something
# make fuzz   random ugly data, damaged files, commands on ugly tables, until COUNT or MINUTES are over
# make docs   the documentation, in docs/_build/html (make docs-site: beside earlier versions, in site)

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml meson.build $(shell find src -type f -not -path '*/__pycache__/*')

.PHONY: demo test test-slow coverage coverage-kernels lint check-repository format docs docs-site package sdist release-notes check-tag stress fuzz journeys bench bench-full bench-docs bench-compare clean

demo: $(VENV)/installed
	@echo "The demo: 442 diabetes patients in six groups (some ten seconds)."
	@$(BIN)/python -m msmtfl demo
	@echo "Next: $(BIN)/msmtfl --help, or . $(BIN)/activate and then msmtfl --help"

test: $(VENV)/tested
	$(BIN)/python -m pytest -n auto $(ARGS)

test-slow: $(VENV)/tested
	$(BIN)/python -m pytest -m slow -n auto $(ARGS)

coverage: $(VENV)/covered
	$(BIN)/python -m coverage erase
	$(BIN)/python -m pytest -m "slow or not slow" -n auto --cov --cov-report= $(ARGS)
	$(BIN)/python -m coverage report --precision=1

coverage-kernels: $(VENV)/covered
	$(BIN)/python -m pytest -m slow -n auto tests/solvers/test_uncompiled.py --cov --cov-config=tests/kernels.coveragerc $(ARGS)

lint: $(VENV)/linted
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/check_docstrings.py

check-repository: $(VENV)/checked
	$(BIN)/sp-repo-review .
	$(BIN)/zizmor --offline --persona=pedantic .github

format: $(VENV)/linted
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

SPHINX := $(BIN)/python -m sphinx -W --keep-going -n -q -j auto

docs: $(VENV)/documented
	$(SPHINX) $(ARGS) docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

# the pages link to the list of versions, which is there once they are beside the others
docs-site: $(VENV)/documented
	$(SPHINX) -A several_versions=1 -E $(ARGS) docs docs/_build/html
	$(BIN)/python docs/versions.py docs/_build/html site
	$(BIN)/python docs/check_site.py site

# the sdist and the wheel made from it, installed in a fresh environment and tested there
package: $(VENV)/packaged
	rm -rf dist
	$(BIN)/python -m build --outdir dist .
	@test $$(cat dist/*.whl | wc -c) -le 2000000 || { echo "The wheel is larger than 2 MB:"; ls -l dist; exit 1; }
	$(PYTHON) -m venv --clear $(VENV)/fresh
	$(VENV)/fresh/bin/python -m pip install --quiet --upgrade pip
	$(VENV)/fresh/bin/python -m pip install --quiet "$$(ls dist/*.whl)[cli]" --group pyproject.toml:test
	$(VENV)/fresh/bin/python -m pytest -q $(ARGS)

sdist: $(VENV)/packaged
	$(BIN)/python -m build --sdist --outdir dist .

# the section of CHANGELOG.md for this version
release-notes:
	mkdir -p dist
	$(PYTHON) docs/release_notes.py > dist/release-notes.md

# is TAG this version's, and has the changelog a date for it?
check-tag:
	$(PYTHON) docs/release_notes.py --check "$(TAG)"

stress: $(VENV)/tested
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/studies/stress.py $(ARGS)

# COUNT fits, as many damaged files and commands on ugly tables; MINUTES at most for each
COUNT ?= 2000
MINUTES ?= 20
SEED ?= 0
fuzz: $(VENV)/tested
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/fuzz_fits.py --fits $(COUNT) --minutes $(MINUTES) --seed $(SEED)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/fuzz_families.py --fits $(COUNT) --minutes $(MINUTES) --seed $(SEED)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/studies/fuzz_files.py --count $(COUNT) --minutes $(MINUTES) --seed $(SEED)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/fuzz_commands.py --count $(COUNT) --minutes $(MINUTES) --seed $(SEED)

journeys: $(VENV)/tested
	$(BIN)/python -m pip install --quiet openpyxl
	$(BIN)/python benchmarks/journeys.py $(ARGS)

bench: $(VENV)/benched
	$(BIN)/python benchmarks/runner/run.py --python adelie=$(VENV)/adelie/bin/python $(ARGS)

bench-full: $(VENV)/benched
	$(BIN)/python benchmarks/runner/run.py --size full --python adelie=$(VENV)/adelie/bin/python $(ARGS)

# docs/benchmarks.md from the last run
bench-docs: $(VENV)/benched
	$(BIN)/python benchmarks/runner/report.py benchmarks/results --docs

bench-compare: $(VENV)/benched
	@test -n "$(BASE)" || { echo "a revision to compare with is needed: make bench-compare BASE=main"; exit 1; }
	$(BIN)/python benchmarks/runner/compare.py $(BASE) $(ARGS)

clean:
	rm -rf $(VENV) build dist docs/_build docs/api docs/examples

$(VENV)/created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..."; exit 1; }
	@command -v cc > /dev/null || command -v gcc > /dev/null || command -v clang > /dev/null || { \
	  echo "A C compiler is needed to build the kernel. Debian/Ubuntu: sudo apt install build-essential python3-dev;"; \
	  echo "Fedora: sudo dnf install gcc python3-devel; macOS: xcode-select --install."; exit 1; }
	@$(PYTHON) -c 'import os, sysconfig, sys; sys.exit(not os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))' || { \
	  echo "Python's headers are needed to build the kernel. Debian/Ubuntu: sudo apt install python3-dev; Fedora: python3-devel."; exit 1; }
	@echo "Making the virtual environment $(VENV)."
	$(PYTHON) -m venv --clear $(VENV) || { rm -rf $(VENV); echo "Debian/Ubuntu: sudo apt install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade pip
	@touch $@

$(VENV)/installed: $(VENV)/created $(SOURCES)
	@echo "Downloading what msmtfl needs, compiling its kernels (one to several minutes), installing:"
	$(BIN)/python -m pip install --progress-bar off ".[all]"
	@touch $@

$(VENV)/tested: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group test
	@touch $@

$(VENV)/covered: $(VENV)/tested
	$(BIN)/python -m pip install --quiet --group coverage
	@touch $@

$(VENV)/checked: $(VENV)/created pyproject.toml
	$(BIN)/python -m pip install --quiet --group repository
	@touch $@

$(VENV)/linted: $(VENV)/tested
	$(BIN)/python -m pip install --quiet --group lint
	@touch $@

$(VENV)/documented: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group docs
	@touch $@

$(VENV)/packaged: $(VENV)/created pyproject.toml
	$(BIN)/python -m pip install --quiet --group package
	@touch $@

$(VENV)/benched: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --group bench
	$(PYTHON) -m venv --clear $(VENV)/adelie
	$(VENV)/adelie/bin/python -m pip install --quiet --upgrade pip
	$(VENV)/adelie/bin/python -m pip install --quiet --group bench-adelie || echo "adelie cannot be had here: skipped"
	@touch $@
