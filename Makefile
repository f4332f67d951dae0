# Everything a new machine needs: `make demo` and `make test` set themselves up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

.PHONY: help demo test test-all coverage test-sanitizers test-flair lint docs bench bench-serve soak clean

help: ## show this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

# The stamps make a second run immediate. The kernel's sources are named because an installed copy must follow them.
KERNEL_SOURCES := $(wildcard src/elmo/bilm/kernels/*.c src/elmo/bilm/kernels/*.h)

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade pip

$(VENV)/.installed: $(BIN)/python pyproject.toml setup.py constraints.txt $(KERNEL_SOURCES)
	$(PIP) install -c constraints.txt -e .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install -c constraints.txt -e '.[dev]'
	@touch $@

demo: $(VENV)/.installed ## embed examples/sentences.txt with the bundled model
	@$(BIN)/python examples/demo.py

# Libraries of gigabytes, a browser, and Java for Spark, which only the long tests need.
$(VENV)/.installed-heavy: $(VENV)/.installed-dev
	$(PIP) install -c constraints.txt -e '.[dev-heavy]'
	command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }
	command -v java >/dev/null || { apt-get update -qq && apt-get install -y -qq default-jre-headless; }
	@touch $@

test: $(VENV)/.installed-dev ## the fast tests, one process a core
	$(BIN)/python -m pytest -q -n auto

test-all: $(VENV)/.installed-heavy ## every test, the long ones too
	$(BIN)/python -m pytest -q -n auto -m ''

# Lines that the fast tests of these folders run, also in the processes that they start.
CORE := text storage bilm checkpoints mix embedding pretrain
coverage: $(VENV)/.installed-dev ## how much of the core the fast tests run, and the lines that they do not
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -q -n auto $(addprefix tests/,$(CORE))
	$(BIN)/python -m coverage combine -q
	$(BIN)/python -m coverage report

# Flair wants transformers 4, sentence-transformers wants 5: an environment of its own.
$(VENV)-flair/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)-flair
	$(VENV)-flair/bin/python -m pip --disable-pip-version-check -q install -c constraints.txt -e '.[flair]' pytest beartype hypothesis
	@touch $@

test-flair: $(VENV)-flair/.installed ## the tests that need Flair
	$(VENV)-flair/bin/python -m pytest -q -m '' -k flair tests/integrations/test_flair.py tests/integrations/test_examples.py

# A copy of the package with kernels that check every access and every sum, and the thread pool on its own.
SANITIZED := build/sanitizers
CHECKS := -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g
test-sanitizers: $(VENV)/.installed-dev ## the kernels' tests under AddressSanitizer and UBSan, the pool under ThreadSanitizer
	rm -rf $(SANITIZED) && mkdir -p $(SANITIZED)
	cp -r src setup.py pyproject.toml README.md LICENSE $(SANITIZED)/ && rm -f $(SANITIZED)/src/elmo/bilm/kernels/*.so
	cd $(SANITIZED) && CFLAGS="$(CHECKS)" LDFLAGS="$(CHECKS)" $(abspath $(BIN))/python setup.py -q build_ext --inplace
	LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
	  PYTHONPATH=$(abspath $(SANITIZED))/src $(BIN)/python -m pytest -q -n auto -p no:cacheprovider tests/bilm tests/mix/test_elmo_layer.py
	gcc -fsanitize=thread -g -O1 -std=gnu11 -pthread -Isrc/elmo/bilm/kernels -o $(SANITIZED)/pool_stress \
	  tests/bilm/kernels/pool_stress.c src/elmo/bilm/kernels/pool.c
	$(SANITIZED)/pool_stress

lint: $(VENV)/.installed-dev ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-dev ## the documentation, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

bench: $(VENV)/.installed-dev ## speed compared with AllenNLP, in one run
	$(BIN)/python benchmarks/bench_embed.py

bench-serve: $(VENV)/.installed-dev ## the service compared with the library, in one run
	$(BIN)/python benchmarks/bench_serve.py

soak: $(VENV)/.installed-dev ## ten minutes of mixed load on the service
	$(BIN)/python benchmarks/soak_serve.py

clean: ## remove what was built
	rm -rf $(VENV) $(VENV)-flair build dist site .pytest_cache .mypy_cache .ruff_cache
