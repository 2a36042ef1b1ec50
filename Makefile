# `make lab` opens JupyterLab on the first tutorial; `make test` checks everything but
# what takes long and seldom finds more: that is `make test-long`. `make docs` builds the
# documentation into build/docs/html, `make site` JupyterLite beside it. All of them start
# from a fresh clone and Python 3.11 or newer, and stay in .venv.
# `make gpu-test` and `make gpu-bench` run on an NVIDIA GPU, from the bare source tree.
# `make bench CASE=gmm` measures one case against other libraries, in an environment of
# its own, .venv-bench; without a case, all of them.
# `make release` builds what is published, tries it, and publishes nothing.
# `make lab LAB_ARGS=--no-browser` hands JupyterLab options of your own.

PYTHON ?= python3
BIN := .venv/bin
TUTORIAL := notebooks/00-five-minutes.ipynb
PAGE := .venv/share/jupyter/labextensions/autodiff-workbench
SETTINGS := .venv/share/jupyter/lab/settings
# What the installed package is made of: the page's sources, not what they become.
SOURCES := pyproject.toml $(filter-out %.tsbuildinfo,$(wildcard extension/*.*)) \
	$(shell find $(wildcard extension/src extension/style extension/schema) -type f)
# What the tutorials need; what `make release` builds and tries with.
EXTRAS.lab := lab,tutorials,distributed
EXTRAS.release := release,test
# JupyterLab refuses root unless told.
ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: bench docs gpu-bench gpu-sanitize gpu-test gpu-wheels lab release site test \
	test-long tutorials

# Neither news nor the question whether to fetch them, which would cover the tutorial.
lab: .venv/lab.stamp
	@mkdir -p $(SETTINGS)
	@cp binder/overrides.json $(SETTINGS)
	$(BIN)/jupyter lab --LabApp.default_url=/lab/tree/$(TUTORIAL) \
		--LabApp.news_url=None $(ROOT) $(LAB_ARGS)

test: .venv/test.stamp
	@$(BIN)/python tests/run.py

test-long: .venv/test.stamp
	@$(BIN)/python tests/run.py long

# Runs the tutorials and keeps their outputs in them.
tutorials: .venv/test.stamp
	@$(BIN)/python -m tests.project.executed

bench:
	@$(PYTHON) tests/benchmarks/environment.py
	@.venv-bench/bin/python -m tests.benchmarks $(CASE)

# On a machine with an NVIDIA GPU, CuPy and pytest: nothing is installed there. What it
# lacks, `make gpu-wheels` collects elsewhere, into build/gpu-wheels.
gpu-test:
	@$(PYTHON) tests/gpu/run.py test

gpu-bench:
	@$(PYTHON) tests/gpu/run.py bench

gpu-sanitize:
	@$(PYTHON) tests/gpu/run.py sanitize

gpu-wheels:
	@$(PYTHON) tests/gpu/run.py wheels

# Builds what is published, and tries each extra in an empty environment.
release: .venv/release.stamp
	@$(BIN)/python -m tests.project.release

docs: .venv/docs.stamp
	@$(BIN)/python notebooks/guide/build.py

# The documentation, and beside it JupyterLite, which runs the tutorials in a browser.
site: .venv/site.stamp
	@WORKBENCH_LITE=1 $(BIN)/python notebooks/guide/build.py
	@$(BIN)/python notebooks/guide/lite.py

# The package in .venv is a link to this checkout, and so is its page, which the
# installation compiles. The link goes first, or the installer would follow it.
.venv/%.stamp: $(SOURCES) | .venv/bin/pip
	@echo "Installing Workbench for make $* into .venv: a minute or three"
	@rm -rf $(PAGE)
	$(BIN)/pip install --quiet --disable-pip-version-check \
		--editable '.[$(or $(EXTRAS.$*),$*)]'
	@rm -rf $(PAGE)
	@ln -s "$(CURDIR)/workbench/labextension" $(PAGE)
	@touch $@ $(if $(filter docs site test,$*),.venv/lab.stamp)

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Workbench needs Python 3.11 or newer: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "Python's venv is missing: apt-get install python3-venv"; exit 1; }
	@$(PYTHON) -m venv .venv
