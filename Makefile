# Everything runs inside .venv, which `make` creates and updates when pyproject.toml changes.
#
#   make demo        real calls, a refused escape, a trap report, a daemon, a conversation
#   make test        the whole suite except the long counts
#   make bench       the figures of bench/README.md, as ratios in one run
#   make lint        ruff, mypy --strict, stubtest; every test can be collected
#   make debug-test  the marked core of the suite on a -O0 build that counts live objects
#   make asan-test   the same on an address and undefined-behaviour sanitizer build
#   make coverage    which lines the marked core of the suite reaches
#   make soak        the long counts
#   make proto       generates from proto/: messages, the client's methods, tables of docs/protocol.md
#   make clean       removes what was built; `make distclean` removes .venv too

PYTHON ?= python3
VENV ?= .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -q
PYTEST := $(PY) -m pytest
STUBBED := $(subst /,.,$(patsubst src/%.pyi,%,$(wildcard src/*/*.pyi)))
# The sources in harness/NAME become harness/NAME/NAME.elf.
IMAGES := $(foreach path,$(wildcard harness/*/),$(path)$(notdir $(path:/=)).elf)

# What is imported is compiled once and kept, whatever the shell says: a start of the daemon takes half the time.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: build venv harnesses proto demo test bench lint debug-test asan-test coverage soak clean distclean

# Says what it compiles; what the compilers say is in build/build.log.
build: $(VENV)/installed
	@mkdir -p build
	@$(PY) setup.py -q build_ext --inplace --parallel 2 > build/build.log 2>&1 || { cat build/build.log; exit 1; }
	@grep Cythonizing build/build.log || true
	@$(PY) -m compileall -q src

venv: $(VENV)/installed

# The extensions are left to `make build`, which says what it does and compiles only what has changed.
$(VENV)/installed: pyproject.toml
	@echo 'installing into $(VENV); then the machine is compiled, which takes some minutes'
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade 'setuptools>=77' 'cython>=3.1'
	RVCORE_EXTENSIONS=0 $(PIP) install --no-build-isolation --editable '.[build,test,lint]'
	touch $@

$(VENV)/installed-bench: $(VENV)/installed
	RVCORE_EXTENSIONS=0 $(PIP) install --no-build-isolation --editable '.[bench]'
	touch $@

harnesses: $(IMAGES)

# Of a release whose output runs on every protobuf since 5; in a venv of its own, since it pins an older one.
PROTOC = build/proto-venv/bin/python -m grpc_tools.protoc
PROTO_OUT = src/crabtalk/wire/pb

build/proto-venv/installed:
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip --disable-pip-version-check -q install 'grpcio-tools==1.63.2' 'setuptools<81'
	touch $@

proto: build/proto-venv/installed
	$(PROTOC) -Iproto --python_out=$(PROTO_OUT) --pyi_out=$(PROTO_OUT) proto/crabtalk.proto
	for file in $(PROTO_OUT)/crabtalk_pb2.py*; do \
	    { printf '# ruff: noqa\n# mypy: disable-error-code="type-arg"\n'; cat $$file; } > $$file.new && mv $$file.new $$file; \
	done
	$(PY) proto/generate.py

.SECONDEXPANSION:
$(IMAGES): $$(wildcard $$(@D)/*.c $$(@D)/*.h) $(shell find src/berm/sdk src/berm/build -name '*.[ch]' -o -name '*.py') | build
	$(VENV)/bin/berm build $(@D) -o $@

demo: build harnesses
	PATH="$(abspath $(VENV)/bin):$$PATH" sh docs/demo.sh

# On all cores; what is left to do is taken over by whoever has nothing to do.
test: build harnesses
	$(PYTEST) -q -n auto --dist worksteal -m "not soak"

soak: build
	$(PYTEST) -q -m soak

bench: build harnesses $(VENV)/installed-bench
	$(PY) bench/run.py

lint: build
	$(PY) -m ruff check .
	$(PY) -m mypy
	$(PY) -m mypy tests/typing
	$(PY) -m mypy.stubtest --concise --allowlist tests/typing/stubtest-allowlist.txt $(STUBBED)
	@$(PYTEST) -q --collect-only > build/collected || { cat build/collected; exit 1; }

# The variants live in copies of the tree under build/, so the release build beside the sources stays as it is.
# tar keeps modification times: what did not change is not compiled again.
COPIED = setup.py pyproject.toml README.md LICENSE Makefile src tests harness docs bench proto examples
NOT_COPIED = '*.so' 'src/rvcore/*.c' 'src/berm/_*.c' 'src/rvcore/_handlers.pyx' '*/__pycache__'
IN_VARIANT = cd build/$@ && PYTHONPATH=$(abspath build/$@/src)
# What is compiled is tested there; the daemon is Python.
CORE = -m "core and not soak" tests/rvcore tests/berm tests/fuzz

define copy-and-compile
	@mkdir -p build/$@/src
	rm -rf build/$@/tests build/$@/harness build/$@/docs
	find build/$@/src -name '*.py' -exec rm {} +
	tar -cf - $(NOT_COPIED:%=--exclude=%) $(COPIED) | tar -xf - -C build/$@
	cd build/$@ && $(1) $(abspath $(PY)) setup.py -q build_ext --inplace --parallel 2 > build.log 2>&1 \
	    || { cat build.log; exit 1; }
endef

debug-test: build
	$(call copy-and-compile,RVCORE_DEBUG=1)
	$(IN_VARIANT) $(abspath $(PY)) -m pytest -q --assert=plain $(CORE)

# Leak detection is off: CPython itself keeps objects until the process ends. Reports go to files, or to a stderr that is
# not captured, since a sanitizer ends the process in the middle of a test.
REPORTS = $(abspath build/asan-test)/report
asan-test: build
	$(call copy-and-compile,RVCORE_SANITIZE=1)
	rm -f $(REPORTS).*
	$(IN_VARIANT) LD_PRELOAD="$$(gcc -print-file-name=libasan.so)" PYTHONMALLOC=malloc \
	    ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:log_path=$(REPORTS) \
	    UBSAN_OPTIONS=print_stacktrace=1:log_path=$(REPORTS) \
	    $(abspath $(PY)) -m pytest -q --assert=plain --capture=sys $(CORE) || { cat $(REPORTS).* 2> /dev/null; exit 1; }

# Functions without the GIL, so the interpreter loop, are not traced: that would take the GIL for every line.
coverage: build
	$(call copy-and-compile,RVCORE_COVERAGE=1)
	$(IN_VARIANT) $(abspath $(PY)) -m coverage run -m pytest -q --assert=plain $(CORE)
	cd build/$@ && $(abspath $(PY)) -m coverage report

clean:
	rm -rf build dist bench/build tests/guests/build harness/*/build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f harness/*/*.elf src/rvcore/*.so src/berm/*.so src/rvcore/*.c src/berm/*.c src/rvcore/_handlers.pyx
	find src tests bench harness -name __pycache__ -type d -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) src/*.egg-info
