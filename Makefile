# make demo     install, run the demo from pictures to a table with p-values, print what came out, caption a picture
# make run      the same for another profile: make run PROFILE=flickr8k INPUTS=/path/to/flickr8k
#               or for a paper at a scale:    make run PAPER=xlan SCALE=scenes
# make test     lint, types, import rules, banned phrases, unit tests and one small workflow        make lint    the first four alone
# make quick    the unit tests that take less than a second each: about a minute on two cores
# make test-all all other tests: the workflow, faults, kills, mutated inputs, simulations
# make test-nightly  the same with all mutations, simulations and rehearsals, where test-all takes some of them
# make schema   JSON schemas of params/ for an editor, in workflow/schemas
# make docs     the documentation as pages for a browser, in build/docs/html; installs Sphinx at the first call
# make results  check published captions and scores, make all pages of docs/results again; fails if one differs. With
#               INPUTS=FOLDER it also scores captions again by their data sets; FETCH=yes downloads those with an address
# make gpu      on a GPU: its tests, then 20 steps of each kind of model beside the CPU's numbers, 15 minutes; writes gpu.json to send in
# make bench    speed of the slow parts                 make ui      MLflow in the browser
# make rehearse a paper's whole workflow on miniatures of its data, in minutes: make rehearse PAPER=xlan
# make repro    the demo through DVC, which keeps every version of the results; another profile or paper as with make run,
#               FETCH=yes fetches its outside files, CONDA=yes runs detectors in their conda environment
# make audit    check the pinned packages for known vulnerabilities; asks the registry about each pin, so it needs a network
# make clean    remove what one profile made (make clean PROFILE=flickr8k) after asking (CONFIRM=yes: without)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := demo
.PHONY: demo run rehearse repro install test quick test-all test-nightly lint types style schema docs results bench gpu ui audit clean

# The pins of requirements/lock.txt are those of Python 3.11.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PROFILE ?= demo
PAPER ?=
SCALE ?=
FOLDER ?=
INPUTS ?=
CONFIRM ?=
FETCH ?=
CONDA ?=
CORES ?= all
PORT ?= 5000
GPU_OPTIONS ?=

# Some machines tell Python to keep no compiled modules: every job would compile torch, Snakemake and MLflow again, seconds each.
export PYTHONDONTWRITEBYTECODE :=

BIN := .venv/bin
INSTALLED := .venv/.installed
DOCUMENTING := .venv/.documenting
PROFILES = $(filter-out titles rehearsal,$(patsubst params/%.yaml,%,$(wildcard params/*.yaml)))
PAPERS = $(patsubst params/%/profile.yaml,%,$(wildcard params/*/profile.yaml))
FILE = $(if $(PAPER),params/$(PAPER)/profile.yaml,params/$(PROFILE).yaml)
CONFIG = $(strip $(if $(SCALE),scale=$(SCALE)) $(if $(INPUTS),"inputs=$$INPUTS"))
# What the workflow calls the folders of a profile.
NAME = $(if $(PAPER),$(PAPER)$(if $(SCALE),_$(SCALE)),$(PROFILE))
REPORTS = reports/$(NAME)

demo: run
	@echo
	$(BIN)/python -P -m recap caption docs/images/scene.png --run results/demo
	@echo "at length  make run PROFILE=scenes (the same models on harder scenes, half an hour of CPU time)"

# Through the environment, a folder may have any name.
run: export INPUTS := $(INPUTS)
run: $(INSTALLED)
	$(if $(wildcard $(FILE)),,$(error there is no $(if $(PAPER),paper '$(PAPER)'; known are: $(PAPERS),profile '$(PROFILE)'; known are: $(PROFILES))))
	$(BIN)/python -P -m snakemake --cores $(CORES) --configfile "$(FILE)" $(if $(SCALE)$(INPUTS),--config $(CONFIG))
	@echo
	@$(BIN)/python -P -m recap report show $(REPORTS)
	@echo "report     $(REPORTS)/report.html"
	@echo "LaTeX      $(REPORTS)/tables/*.paper.tex, with every test *.tex"
	@echo "pictures   $(REPORTS)/figures/*_captions.png"
	@echo "MLflow     mlflow/mlflow.db (look at it with: make ui)"
	@echo "your photo $(BIN)/recap caption PHOTO --run results/$(NAME)"

rehearse: $(INSTALLED)
	$(if $(PAPER),,$(error say which paper: make rehearse PAPER=xlan; known are: $(PAPERS)))
	$(BIN)/python -P -m recap rehearse "$(PAPER)" $(if $(FOLDER),--folder "$(FOLDER)")

repro: export INPUTS := $(INPUTS)
repro: $(INSTALLED)
	$(if $(wildcard $(FILE)),,$(error there is no $(FILE); name a PROFILE or a PAPER))
	$(BIN)/python -P -m recap artifacts add "$(FILE)" $(if $(SCALE),--scale $(SCALE)) $(if $(INPUTS),--inputs "$$INPUTS") \
	    $(if $(filter yes,$(FETCH)),--fetch) $(if $(filter yes,$(CONDA)),--conda)
	PATH="$(CURDIR)/$(BIN):$$PATH" dvc repro 'report@$(NAME)'
	@# MLflow's view is no output of a stage: after a pull DVC has nothing to do, and the view is still to be made.
	$(BIN)/python -P -m snakemake --cores $(CORES) --configfile "$(FILE)" $(if $(SCALE)$(INPUTS),--config $(CONFIG))

install: $(INSTALLED)

$(INSTALLED): pyproject.toml requirements/lock.txt requirements/install.sh requirements/relative_pth.py
	requirements/install.sh "$(PYTHON)" .venv
	touch $@

# The tests of a file stay together, because they share what its fixtures make; tests/conftest.py puts long ones first.
PYTEST = $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
QUICK = (unit or smoke) and not slow

test: lint
	$(PYTEST) -m "$(QUICK)"

quick: $(INSTALLED)
	$(PYTEST) -m "unit and not slow and not seconds" -q

test-all: $(INSTALLED)
	$(PYTEST) -m "not ($(QUICK))"

test-nightly: $(INSTALLED)
	RECAP_TESTS=all $(PYTEST) -m "not ($(QUICK))"

# Both halves at once: mypy takes as long as all the others.
lint: $(INSTALLED)
	@$(MAKE) --no-print-directory -j 2 types style

types: $(INSTALLED)
	$(BIN)/mypy

style: $(INSTALLED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/lint-imports
	$(BIN)/python docs/_sphinx/rooms.py --check
	$(BIN)/snakefmt --check Snakefile workflow
	@# Lints are titles that begin with a star. What workflow/lint.txt names is meant: one environment for all jobs
	@# (requirements/lock.txt); variables that hold for a whole run, which as params would rerun finished jobs; functions
	@# beside the only rules that use them; folders that hold files of many rules.
	LINTS=$$($(BIN)/python -P -m snakemake --lint 2>&1 || true); grep -q '^Lints for ' <<< "$$LINTS" && \
	    ! grep '^    \* ' <<< "$$LINTS" | grep -v --file workflow/lint.txt
	grep -rnEi --file docs/english.txt --include='*.md' --include='*.ipynb' --include='*.py' README.md CONTRIBUTING.md docs src workflow && exit 1 || test $$? -eq 1

schema: $(INSTALLED)
	$(BIN)/python -P -m recap config schema --out workflow/schemas

# Sphinx is no part of `make install`, which stays short; the pins of requirements/lock.txt hold for it, too.
$(DOCUMENTING): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --constraint requirements/lock.txt --editable ".[docs]"
	"$(PYTHON)" requirements/relative_pth.py .venv
	touch $@

docs: $(DOCUMENTING)
	$(BIN)/python docs/_sphinx/rooms.py
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -c docs/_sphinx -d build/docs/doctrees docs build/docs/html
	@echo "open       build/docs/html/index.html"

results: export INPUTS := $(INPUTS)
results: $(INSTALLED)
	$(if $(filter yes,$(FETCH)),$(BIN)/python -P -m recap data fetch iu_xray/NLMCXR_reports.tgz iu_xray/annotation.json --into "$${INPUTS:-resources}")
	$(BIN)/python -P -m recap report check $(if $(INPUTS)$(filter yes,$(FETCH)),--inputs "$${INPUTS:-resources}")

bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.run

# Where a test fails, the comparisons are made all the same: the file has both.
gpu: $(INSTALLED)
	mkdir -p build
	tests=0; $(BIN)/python -m pytest -n 0 -m gpu | tee build/gpu_tests.txt || tests=1; \
	    $(BIN)/python -m benchmarks.gpu --tests build/gpu_tests.txt $(GPU_OPTIONS) && exit $$tests

# Started in the clone's folder: artifacts are found relative to it, so that the clone may move.
ui: $(INSTALLED)
	@$(BIN)/python -P -m recap run-step recap.share.tracking_store:print_run_lists --store mlflow/mlflow.db --port $(PORT)
	MLFLOW_DISABLE_TELEMETRY=true MLFLOW_SERVER_ENABLE_JOB_EXECUTION=false PYTHONSAFEPATH=1 $(BIN)/python -m mlflow ui \
	    --backend-store-uri sqlite:///mlflow/mlflow.db --artifacts-destination ./mlflow/artifacts \
	    --host 127.0.0.1 --port $(PORT) --workers 1

# In an environment of its own, which is thrown away: what audits is no dependency of what is audited.
audit:
	folder=$$(mktemp -d) && trap 'rm -rf "$$folder"' EXIT && "$(PYTHON)" -m venv "$$folder" && \
	    "$$folder/bin/pip" install --quiet pip-audit && \
	    "$$folder/bin/pip-audit" --requirement requirements/lock.txt --no-deps --disable-pip $(AUDIT)

clean: $(INSTALLED)
	@$(BIN)/python -P -m recap artifacts clean '$(NAME)' $(if $(filter yes,$(CONFIRM)),--yes)
