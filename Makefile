# Each target sets up what it needs, and does nothing when nothing changed. Needs Python 3.11+, make and git.
# PYTHON=/path/to/python chooses the interpreter. The work is in scripts/.

PYTHON ?=
export PYTHON
# Bytecode is kept, whatever the environment says: to compile the tests again takes each worker ten seconds.
unexport PYTHONDONTWRITEBYTECODE

setup = @scripts/python scripts/setup.py
python = .venv/bin/python

.DEFAULT_GOAL := help
.PHONY: help run examples check test fuzz soak kubelet lint format bench docs pictures dist pin clean


help: ## This list
	@sed -n 's/^\([a-z]*\): ## /  make \1:/p' Makefile | while IFS=: read -r name what; do printf '%-15s %s\n' "$$name" "$$what"; done

run: ## Run the PyTorch job of the examples on this machine
	$(setup) run
	@$(python) -m scripts.with_framework torch .venv/bin/pumice run examples/pytorch-job.yaml $$($(python) -m scripts.isolation)
	@command -v pumice >/dev/null || echo 'next: export PATH="$$PWD/.venv/bin:$$PATH" && pumice init --help' >&2

examples: ## Run every job of the examples that can run on this machine
	$(setup) run
	@$(python) -m scripts.examples

check: ## Style, types, layers and unit tests: for the inner loop
	$(setup) test
	@$(python) -m scripts.check check

test: ## All checks: style, types, layers, tests, coverage
	$(setup) test
	@$(python) -m scripts.check

fuzz: ## Feed mutated jobs, reviews, HTTP answers and images to Pumice: SECONDS=60 SEED=1 CASES=
	$(setup) test
	@$(python) -m scripts.fuzz --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) $(CASES)

soak: ## All examples of the tests that draw lots or take longer than 30 seconds: about half an hour
	$(setup) test
	@$(python) -m scripts.kubernetes_programs
	@PUMICE_SOAK=1 $(python) -m pytest --progress -q -rfEs -n 2 --durations=20 \
		$$(grep -rlE '\bSOAK\b|mark\.soak\b|^@given' tests --include='test_*.py')

kubelet: ## Tests on a real kubelet and containerd, as root: tests/cluster/README.md
	$(setup) test
	@$(python) -m scripts.kubelet

lint: ## Style, types and layers only
	$(setup) test
	@$(python) -m scripts.check lint

format: ## Format every Python file
	$(setup) test
	@$(python) -m ruff check --fix-only --quiet .
	@$(python) -m ruff format .

bench: ## Run the benchmarks in benchmarks/
	$(setup) test
	@for file in benchmarks/*.py; do echo "== $$file"; $(python) -m "benchmarks.$$(basename "$$file" .py)" || exit 1; done

docs: ## Regenerate the generated pages of docs/ and the data of src/pumice/data/
	$(setup) test
	@$(python) -m scripts.docs

pictures: ## Draw the pictures of docs/images/: terminals from real runs, the page in Chromium
	$(setup) test
	@$(python) -m scripts.terminal_pictures
	@$(python) -m scripts.page_pictures --docs

dist: ## Build the wheel and the source distribution into dist/
	$(setup) run
	@rm -rf dist
	@$(python) -m hatchling build

pin: ## Choose the newest versions that pyproject.toml allows and write requirements/
	$(setup) test
	@$(python) -m scripts.pin

clean: ## Remove .venv, caches and results
	rm -rf .venv .venv.lock .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
