# One short command for each job; `make` alone lists them. Everything is built under VENV and build/.
PYTHON ?= python3
VENV ?= .venv
REFERENCE := build/reference/venv
PY := $(VENV)/bin/python
PIP_INSTALL := install -qq --disable-pip-version-check
PYTEST_ARGS ?=
NOTEBOOKS := --nbmake --nbmake-timeout=300
# Which proofs of `make engines`, all if empty.
ENGINES_ARGS ?=
# Which proofs of `make streams`, all but AIPerf's if empty.
STREAMS_ARGS ?=
# More options of `jupyter lab`: --ip=0.0.0.0 lets a browser outside the container in.
LAB_ARGS ?=
# As root, as in most containers, JupyterLab starts only if it is told to.
AS_ROOT := $(if $(filter 0,$(shell id -u)),--allow-root)

# JupyterLab asks no question about news over the first cell, and the network none about updates; names of files have
# the whole width of the browser. Who wants it otherwise sets it.
QUIET := {"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false}, \
  "@jupyterlab/filebrowser-extension:browser": {"showLastModifiedColumn": false}}
LAB_SETTINGS := $(VENV)/share/jupyter/lab/settings
# What is run and edited there leaves the clone as it was; a copy that was edited stays.
LAB_COPY := build/lab

# What the wheel is built from besides the package: a changed bundle is installed anew.
BUNDLE := tritonlab/labextension/sources.sha256

ENGINES := build/engines
MATRIX := build/matrix/tools
# What only the tests need, uv installs in a quarter of the time that pip takes; `make lab` takes what everybody has.
# torch is pip's, whose settings may name a build for the CPU: uv does not read them, and takes CUDA's 3 GB.
UV_INSTALL := UV_CACHE_DIR=build/matrix/cache $(MATRIX)/bin/uv pip install -q --python

.PHONY: help lab demo test bytecode releases engines matrix exam check lint docs bench long capture push streams gpu memory rules sizes clean extension extension-check watch models-page

help:
	@echo "make lab     JupyterLab on the quickstart, in a virtual environment made here; prints its address"
	@echo "             (in a container: make lab LAB_ARGS=--ip=0.0.0.0)"
	@echo "make demo    the quickstart without a browser: runs every cell, prints what it did"
	@echo "make check   ruff, mypy strict, import layers, Python 3.8 syntax of the stub"
	@echo "make test    check, then every test: unit, against the real server, notebooks, browser"
	@echo "make docs    the documentation, with its notebooks executed, into build/docs (DOCS_EXECUTE=off: as they are stored)"
	@echo "make matrix  the built wheel in clean environments of every supported version (minutes each; MATRIX_ROWS=\"oldest 3.12\")"
	@echo "make watch   rebuilds the JupyterLab extension at every change of extension/; reload the browser to see it"
	@echo "make extension  builds it and the live views, to be committed (needs node 20)"
	@echo "make models-page  fetches the published file of RapiDoc that shows the page of models"
	@echo "make bench   tritonlab and the real server side by side, written to build/bench.json"
	@echo "make push    edits pushed to the real server under traffic: their times, and that no request fails"
	@echo "make capture  20,000 requests to the real server through a tap: compares what was captured with what clients sent and got"
	@echo "make streams  streams through the port of OpenAI's API: delay of a chunk, clients that leave, memory after 10,000 of them (STREAMS_ARGS=\"aiperf=DIR/bin/aiperf\")"
	@echo "make long    the tests that take minutes each: exports to other releases, an operator's and a newcomer's day, the quickstart in JupyterLab"
	@echo "make releases  models on every release of Triton that can be had as a wheel (480 MB, kept under build/)"
	@echo "make engines  models on NVIDIA Dynamo, Ray and KServe's Triton (2 GB, kept under build/; minutes)"
	@echo "make exam    pre-flight and verify on all their traps, then model.check() on the corpus of planted bugs and right models (hours; EXAM_ARGS=\"--seconds 20 --seeds 1\")"
	@echo "make gpu     checks and measures what goes on in the memory of this machine's GPU; prints each figure with its name"
	@echo "make memory  requests of every kind to servers whose memory is limited, none of which they may end (root; an hour or more)"
	@echo "make rules   the rule book, rule by rule: proved, proved on our side only, open"
	@echo "make sizes   lines of files, functions and classes, circles of imports, hidden calls upward, private names used,"
	@echo "             and how deep the way of a request is, and the calls from a cell to READY"
	@echo "make clean   removes all that was built here"

# The first build takes minutes, so what it does is said before, and a line counts the packages. Measured on 2 busy cores, wheels from a local
# mirror, PyTorch's CPU build: 1 min 50 s.
define ANNOUNCE
@echo "Installing JupyterLab, PyTorch, scikit-learn and tritonlab into $(VENV): about 140 packages, 1.6 GB on disk"
@echo "(PyPI's PyTorch for Linux brings CUDA and is some GB more). This takes 1 to 2 minutes on 2 cores where the"
@echo "network is fast, the first time only."
endef

# Of pip's 400 lines one remains, which a terminal writes over; $(VENV)/pip.log has all, and a failure shows its end.
define COUNT_PACKAGES
{ count=0; \
  show() { if [ -t 1 ]; then printf '\r\033[K%s' "$$1"; elif [ -z "$${1##*[05]0 of*}" ] || [ -n "$$2" ]; then echo "$$1"; fi; }; \
  while read -r word name rest; do case $$word in \
    Collecting|Processing) count=$$((count + 1)); name=$${name##*/}; show "$$count of about 140 packages: $${name%%[-<>=!~;[]*}" ;; \
    Downloading) show "$$count of about 140 packages: $${name%%-*} $$rest" ;; \
    Installing) if [ "$$name" = collected ]; then show "Writing $$count packages to $(VENV) ..." now; fi ;; \
    Successfully) if [ "$$name" = installed ]; then show "$$count packages are installed." now; [ -t 1 ] && echo; fi ;; \
    pip-ended) [ "$$name" = 0 ] || { echo; tail -n 40 $(VENV)/pip.log; exit "$$name"; } ;; \
  esac; done; }
endef

# A stamp per set of packages: nothing is installed again until pyproject.toml or the pins change.
$(VENV)/bin/python:
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.lab: pyproject.toml tests/constraints.txt $(BUNDLE) | $(VENV)/bin/python
	$(ANNOUNCE)
	@{ $(PY) -m pip install --disable-pip-version-check -c tests/constraints.txt -e ".[lab,onnx,torch]" scikit-learn onnx 2>&1; \
	  echo "pip-ended $$?"; } | tee $(VENV)/pip.log | $(COUNT_PACKAGES)
	@touch $@

$(VENV)/.test: pyproject.toml tests/constraints.txt $(BUNDLE) | $(VENV)/bin/python $(MATRIX)/.stamp
	@$(PY) -m pip $(PIP_INSTALL) -c tests/constraints.txt torch
	$(UV_INSTALL) $(PY) -c tests/constraints.txt -e ".[lab,onnx,torch,test,docs]"
	@$(PY) -m compileall -q -j 2 -x '/tests?/' $(VENV)/lib >/dev/null || true
	@touch $@ $(VENV)/.lab

# The judge: nvidia-pytriton's wheel carries a tritonserver. It needs numpy < 2, so it lives on its own.
$(REFERENCE)/.stamp: tests/conformance/reference.txt | $(MATRIX)/.stamp
	$(PYTHON) -m venv $(REFERENCE)
	$(UV_INSTALL) $(REFERENCE)/bin/python -r tests/conformance/reference.txt
	@touch $@

# Prometheus' own judge of the rules that an export writes. Debian's package is unpacked, not installed: installed, it
# starts a Prometheus. Elsewhere one on PATH is used, or those tests are skipped.
build/promtool:
	@mkdir -p build/promtool.deb
	@if command -v promtool >/dev/null || ! command -v apt-get >/dev/null; then echo "promtool is not fetched"; else \
	cd build/promtool.deb && { apt-get download -qq prometheus || { apt-get update -qq && apt-get download -qq prometheus; }; } >/dev/null 2>&1 && \
	dpkg-deb --fsys-tarfile prometheus_*.deb | tar -x --strip-components=3 -C .. ./usr/bin/promtool || echo "promtool could not be fetched"; fi
	@rm -rf build/promtool.deb

lab: $(VENV)/.lab
	@mkdir -p $(LAB_SETTINGS) && echo '$(QUIET)' > $(LAB_SETTINGS)/overrides.json
	@$(PY) -c "from pathlib import Path; from tritonlab.quickstart import copy_notebooks as copy; copy(Path('notebooks'), Path('$(LAB_COPY)'))"
	@echo "JupyterLab starts on copies of the notebooks, in $(LAB_COPY); Control-C ends it."
	@$(VENV)/bin/jupyter lab $(AS_ROOT) --log-level=WARN --ServerApp.root_dir=$(LAB_COPY) \
	  --LabApp.default_url=/lab/tree/00_quickstart.ipynb $(LAB_ARGS)

demo: $(VENV)/.lab
	@$(PY) notebooks/run.py notebooks/00_quickstart.ipynb

check: lint extension-check
	$(PY) -m pytest -q tests/test_layering.py tests/test_stub_syntax.py tests/test_labextension.py

lint: $(VENV)/.test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy

# jlpm and jupyter-builder come with JupyterLab.
extension/node_modules: extension/yarn.lock | $(VENV)/.test
	cd extension && PATH="$(abspath $(VENV))/bin:$$PATH" jlpm install --immutable >/dev/null
	@touch $@

extension: extension/node_modules
	cd extension && PATH="$(abspath $(VENV))/bin:$$PATH" jlpm build

# Where there is node and npm's packages can be had: strict types, eslint, the unit tests, and that the committed bundle
# is what is built from the sources. Elsewhere tests/test_labextension.py compares the sum of the sources.
extension-check: | $(VENV)/.test
	@if ! command -v node >/dev/null; then echo "no node: the extension is not built anew"; \
	elif ! $(MAKE) --no-print-directory extension/node_modules; then echo "no npm packages: the extension is not built anew"; \
	else cd extension && PATH="$(abspath $(VENV))/bin:$$PATH" && jlpm check && node compare.mjs; fi

# RapiDoc, which shows the page of models; a test compares what is committed with the published file.
RAPIDOC = 9.3.8
models-page:
	@dir=$$(mktemp -d) && npm pack --silent --pack-destination $$dir rapidoc@$(RAPIDOC) >/dev/null && tar -xzf $$dir/*.tgz -C $$dir \
	  && gzip -9nc $$dir/package/dist/rapidoc-min.js > tritonlab/frontends/http/static/rapidoc-min.js.gz && rm -r $$dir

watch: extension/node_modules
	$(VENV)/bin/jupyter-builder develop . --overwrite
	cd extension && PATH="$(abspath $(VENV))/bin:$$PATH" jlpm watch

# What hundreds of processes and each worker of pytest would otherwise compile again, also where the environment says that
# Python writes no bytecode: the package, and the tests as pytest rewrites them.
bytecode: $(VENV)/.test
	@$(PY) -m compileall -q tritonlab
	@PYTHONDONTWRITEBYTECODE= $(PY) -m pytest --collect-only -qq $(NOTEBOOKS) tests notebooks >/dev/null || true

# Five at a time, by file, in the order of tests/conftest.py: much of the suite waits, for the real server above all, of
# whose loads each takes 1.3 s and 0.3 s of a processor. A few that fail are run once more, alone, and those that pass
# then are named. A test that hangs ends its worker; the run ends with the second, because xdist starts a file that ended a
# worker again in the next. With `make -j2 test` what comes before takes two processors.
test: lint extension-check bytecode $(REFERENCE)/.stamp build/promtool
	$(PY) -m tests.again -n 5 --max-worker-restart=1 --dist loadfile --no-loadscope-reorder $(NOTEBOOKS) tests notebooks $(PYTEST_ARGS) -- $(NOTEBOOKS)

# Without DOCS_EXECUTE=off each notebook is run; what was run and has not changed is kept (build/docs-executed).
docs: $(VENV)/.test
	TRITONLAB_DOCS_EXECUTE=$(or $(DOCS_EXECUTE),cache) $(PY) -m sphinx -W --keep-going -b html docs build/docs
	@echo "build/docs/index.html"

# A row needs nothing of this checkout but its wheel, and what builds and installs that.
$(MATRIX)/.stamp: tests/matrix/tools.txt
	$(PYTHON) -m venv $(MATRIX)
	$(MATRIX)/bin/python -m pip $(PIP_INSTALL) -r tests/matrix/tools.txt
	@touch $@

matrix: $(MATRIX)/.stamp
	$(MATRIX)/bin/python -m tests.matrix $(MATRIX_ROWS)

bench: $(VENV)/.test $(REFERENCE)/.stamp
	$(PY) -m tests.benchmarks.side_by_side

capture: $(VENV)/.test $(REFERENCE)/.stamp
	$(PY) -m tests.capture_proof $(CAPTURE_ARGS)
	$(PY) -m tests.replay_proof

push: $(VENV)/.test $(REFERENCE)/.stamp
	$(PY) -m tests.push_proof

streams: $(VENV)/.test
	$(PY) -m tests.benchmarks.openai_streams $(STREAMS_ARGS)

# checkov pins its own versions of much that the tests have, so it lives on its own.
build/checkov/.stamp: | $(MATRIX)/.stamp
	$(PYTHON) -m venv build/checkov
	$(UV_INSTALL) build/checkov/bin/python checkov
	@touch $@

# What takes minutes, and is not in `make test` for that.
LONG := tests/tools/deploy/test_operator.py tests/tools/deploy/test_export_run.py tests/conformance/test_releases.py \
  tests/conformance/test_judges.py tests/browser/test_newcomers_day.py \
  tests/browser/test_notebook_in_lab.py::test_the_quickstart_reads_well

long: $(VENV)/.test $(REFERENCE)/.stamp
	TRITONLAB_LONG=1 $(PY) -m pytest -q $(LONG)

releases: $(VENV)/.test build/checkov/.stamp long
	TRITONLAB_CHECKOV=$(abspath build/checkov/bin/checkov) $(PY) -m pytest -q tests/tools/deploy/manifests/test_kubernetes.py -k checkov
	$(PY) -m tests.releases --write docs/reference/models-by-release.md
	$(PY) notebooks/run.py notebooks/92_deploying.ipynb

# Neither is ever installed beside the package: each has an environment of its own, and this checkout on its path.
$(ENGINES)/dynamo/.stamp: tests/engines/dynamo-wheels.txt tests/engines/dynamo.txt
	$(PYTHON) -m venv $(ENGINES)/dynamo
	$(ENGINES)/dynamo/bin/python -m pip $(PIP_INSTALL) --no-deps -r tests/engines/dynamo-wheels.txt
	$(ENGINES)/dynamo/bin/python -m pip $(PIP_INSTALL) -r tests/engines/dynamo.txt
	@touch $@

$(ENGINES)/ray/.stamp: tests/engines/ray.txt
	$(PYTHON) -m venv $(ENGINES)/ray
	$(ENGINES)/ray/bin/python -m pip $(PIP_INSTALL) -r tests/engines/ray.txt
	@touch $@

$(ENGINES)/kserve/.stamp: tests/engines/kserve.txt
	$(PYTHON) -m venv $(ENGINES)/kserve
	$(ENGINES)/kserve/bin/python -m pip $(PIP_INSTALL) -r tests/engines/kserve.txt
	@touch $@

engines: $(VENV)/.test $(REFERENCE)/.stamp $(ENGINES)/dynamo/.stamp $(ENGINES)/ray/.stamp $(ENGINES)/kserve/.stamp
	$(PY) -m tests.engines $(ENGINES_ARGS)

EXAM_ARGS ?=
exam: $(VENV)/.test
	TRITONLAB_EXAM=1 $(PY) -m pytest -q --timeout=3600 tests/tools/deploy/preflight/test_trial.py \
	  tests/conformance/test_corpus_judged.py tests/conformance/test_verdicts.py
	$(PY) -m tests.tools.check.exam $(EXAM_ARGS)

gpu: $(VENV)/.test
	$(PY) -m tests.gpu

# One limit after the other; needs root, cgroups and 12 GB. `make memory MEMORY_ARGS="--limits 1 --worst"` is the shortest.
memory: $(VENV)/.test
	$(PY) -m tests.memory_limits $(MEMORY_ARGS)

rules: $(VENV)/.test
	$(PY) -m tests.conformance.rules

sizes: $(VENV)/.test
	$(PY) -m tests.sizes
	$(PY) -m tests.request_walk

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
