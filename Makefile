# `make lab` opens JupyterLab on the first tutorial; `make test` checks everything.
# Both start from a fresh clone and Python 3.11 or newer, and stay in .venv.

PYTHON ?= python3
BIN := $(CURDIR)/.venv/bin
LAB_ARGS ?=
TUTORIAL := notebooks/01-first-gradient.ipynb
LABEXTENSION := .venv/share/jupyter/labextensions/autodiff-workbench
SOURCES := pyproject.toml $(shell find extension -name node_modules -prune -o \
	-name lib -prune -o -name ui-tests -prune -o -name .yarn -prune -o -type f -print)
# Chromium, git and JupyterLab itself refuse or mind being run by root.
ROOT_ARGS := $(if $(filter 0,$(shell id -u)),--allow-root)

.PHONY: lab test clean
.SUFFIXES:

lab: .venv/lab.stamp
	$(BIN)/jupyter lab $(TUTORIAL) $(ROOT_ARGS) $(LAB_ARGS)

test: .venv/test.stamp
	@$(BIN)/python tests/run.py

clean:
	rm -rf .venv extension/node_modules extension/lib extension/ui-tests/node_modules
	rm -rf workbench/labextension

.venv/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Workbench needs Python 3.11 or newer: make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "Python's venv is missing: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv .venv

# The package lies in .venv as a link to this checkout, and so does the page, which
# the installation compiles when its sources have changed.
.venv/%.stamp: .venv/bin/pip $(SOURCES)
	rm -rf $(LABEXTENSION)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[$*]'
	rm -rf $(LABEXTENSION)
	ln -s $(CURDIR)/workbench/labextension $(LABEXTENSION)
	@touch $@
	@if [ $* = test ]; then touch .venv/lab.stamp; fi
