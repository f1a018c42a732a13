PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python

.PHONY: build test lint
build: $(PY)
	$(PY) setup.py -q build_ext --inplace

$(PY):
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -q -e '.[build,test,lint]'

test: build
	$(PY) -m pytest -q -m "not soak"
