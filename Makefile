# The course's commands; `make help` lists them. All create the environment they need.
.DEFAULT_GOAL := help
.PHONY: help env course test test-fast test-slow test-notebooks lint lab app slides grade \
  notebooks results tiny seeds ladder rules game bench gpu-bench parity serve serve-check \
  gguf-check scale handover-check tpu-check tpu-floor tpu-peers real-model real \
  colab-check app-check release-check clean
.DELETE_ON_ERROR:
.NOTPARALLEL:

PY := .venv/bin/python
READY := .venv/ready
WORKERS ?= 2
# The longest come first, so that no worker ends alone.
LONGEST_FIRST := 07 11 10 10b 08b 09 04 12 15 08 04b 05 13 14 13c 03 06 02 00 01 13b
NOTEBOOKS := printf '%s\n' $(LONGEST_FIRST:%=notebooks/%_*.ipynb)
# Files with slow tests alone: to collect all takes half a minute in each worker.
SLOW := grep -rl --include='test_*.py' 'mark.slow' tests | sort
# In the order given; else files with many tests come first, however quick they are.
BY_FILE := --dist loadfile --no-loadscope-reorder
REAL_MODEL := HuggingFaceTB/SmolLM2-135M-Instruct
# Jupyter refuses root, who is the only user of most containers, unless told so.
AS_ROOT = $(if $(filter 0,$(shell id -u)),--allow-root)

export JAX_COMPILATION_CACHE_DIR ?= $(CURDIR)/build/jax-cache
export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS ?= 0.3
export TOKENIZERS_PARALLELISM ?= false

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | \
	  awk -F ':.*## *' '{ printf "  make %-15s %s\n", $$1, $$2 }'

env: $(READY)  ## create .venv and install the course into it

$(READY): pyproject.toml .ci/env
	@bash .ci/env
	@touch $(READY)

course: $(READY)  ## run the walk: SFT, GRPO, distillation, food (about 15 minutes)
	@$(PY) notebooks/walk.py

# A worker per core, and for each of them one of XLA's threads: they do not wait for each
# other, and all takes a fifth less processor time.
test-fast test-slow test-notebooks: export NPROC := 1
test-fast test-slow test-notebooks: export PJRT_NPROC := 1
# Workers, and later runs, share the hundreds of tiny programs of single operations, too.
test-fast test-slow: export JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS := 0
test: lint test-fast test-slow test-notebooks  ## everything that must pass

test-fast: $(READY)  ## tests that take seconds
	$(PY) -m pytest -q -n $(WORKERS) --dist worksteal -m "not slow"

test-slow: $(READY)  ## those that train for minutes
	$(PY) -m pytest -q -n $(WORKERS) $(BY_FILE) -m slow $$($(SLOW))

test-notebooks: $(READY)  ## all notebooks under nbval
	rm -rf build/test
	PYTHONPATH="$(CURDIR)/tests/quick" XLA_FLAGS="$$($(PY) tests/xla_flags.py)" \
	$(PY) -m pytest -q -n $(WORKERS) $(BY_FILE) --nbval-lax --nbval-current-env \
	  --nbval-cell-timeout=1800 $$($(NOTEBOOKS))

lint: $(READY)  ## check style, formatting and types
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

lab: $(READY)  ## open your own copy of the course (workbook/) in JupyterLab
	$(PY) -m scripts.workbook
	COURSE_BUILD="$(CURDIR)/build" $(PY) -m jupyter lab $(AS_ROOT) \
	  workbook/00_start_here.ipynb

app: $(READY)  ## open the food-logging assistant (notebook 14) as a web page
	COURSE_BUILD="$(CURDIR)/build" $(PY) -m scripts.app $(APP_ARGS)

slides: $(READY)  ## slides of all notebooks, to teach from, into build/slides
	$(PY) -m scripts.slides

grade: $(READY)  ## check a class's notebooks, into build/grades.csv: make grade FOLDER=…
	$(PY) -m scripts.grade "$(FOLDER)" $(GRADE_ARGS)

notebooks: $(READY)  ## re-execute and normalise all committed notebooks
	rm -rf build/committed
	COURSE_BUILD="$(CURDIR)/build/committed" $(PY) notebooks/publish.py
	COURSE_BUILD="$(CURDIR)/build/committed" $(PY) -m scripts.results

results: $(READY)  ## write docs/results.md and the tables of README from data/results
	$(PY) -m scripts.results

tiny: $(READY)  ## train the shipped checkpoints data/tiny anew (under an hour)
	$(PY) -m scripts.tiny

seeds: $(READY)  ## the walk with three seeds, into data/results/learning.csv
	$(PY) -m scripts.seeds

ladder: $(READY)  ## SFT, GRPO and rivals by worked solutions, into ladder.csv (1–2 CPU-hours)
	$(PY) -m scripts.ladder

rules: $(READY)  ## SmolLM2-135M learns rules by GRPO, into rules.csv (some CPU-hours)
	$(PY) -m scripts.rules

game: $(READY)  ## a game learned by GRPO with three seeds, into game.csv (45 CPU-minutes)
	$(PY) -m scripts.game

bench: $(READY)  ## measure against google-tunix and TRL, into data/results/bench_cpu.csv
	$(PY) tests/bench/bench.py

gpu-bench: $(READY)  ## the same on a GPU beside TRL, into gpu.csv: 7 minutes (GPU_ARGS)
	$(PY) tests/bench/gpu.py $(GPU_ARGS)

parity: $(READY)  ## compare with transformers and peft, in an environment made for it
	$(PY) tests/golden/parity.py

serve: $(READY)  ## serve a model folder with vLLM (SERVE_ARGS="FOLDER --engine course")
	$(PY) -m scripts.serve $(SERVE_ARGS)

ENGINE ?= transformers
serve-check: $(READY)  ## ask a running server: ENGINE=transformers, llama, vllm
	$(PY) tests/serve/serve.py $(ENGINE) $(CHECK_ARGS)

gguf-check: $(READY)  ## llama.cpp reads our files, into data/results/gguf_llama_cpp.csv
	$(PY) tests/golden/llama_cpp.py

scale: $(READY)  ## asynchronous RL whose workers and trainer are killed: 500 CPU-seconds
	$(PY) -m tests.scale.cluster $(SCALE_ARGS)

handover-check: $(READY)  ## our rewards and weights in TRL and Tunix
	$(PY) tests/engines/handover.py $(CHECK_ARGS)

tpu-check: $(READY)  ## compile the real programs for TPUs, into data/results/tpu_fit.csv
	$(PY) -m scripts.tpu_check $(TPU_ARGS)

tpu-floor: $(READY)  ## the same for the default preset, with the jax that Colab has
	$(PY) -m scripts.tpu_check --colab

tpu-peers: $(READY)  ## GRPO's gradient beside google-tunix's, compiled into tpu_peers.csv
	$(PY) tests/bench/tpu_peers.py

real-model: $(READY)  ## fetch SmolLM2-135M-Instruct, a real model for two cores
	@$(PY) -c "from helpers.model import hub; print(hub.fetch('$(REAL_MODEL)'))"

real: $(READY)  ## train that model, into data/results/real.csv (REAL_ARGS=--help)
	$(PY) -m scripts.real $(REAL_ARGS)

colab-check: $(READY)  ## the set-up cell and notebooks 02, 04, 07 in an imitation of Colab
	$(PY) -m tests.colab.colab_check

app-check: $(READY)  ## the assistant's web page in a headless Chromium
	$(PY) tests/browser/check.py
	$(PY) tests/browser/app_picture.py --check

release-check: $(READY)  ## whether tag, badges and set-up cells agree
	$(PY) -m tests.colab.release_check

clean:  ## delete what was built, runs and results included; keeps .venv
	rm -rf build .pytest_cache .ruff_cache .mypy_cache .hypothesis
