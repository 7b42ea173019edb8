# Two commands do all the set-up, each from a bare checkout with only Python (>= 3.11) and make:
#   make demo    runs the main job on real text      make test    passes the tests
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export TOKENIZERS_PARALLELISM := true

#   make docs    builds the documentation site in build/site, offline
.PHONY: install format check test test-slow docs tutorial dist docker release-check demo demo-causal demo-seeds demo-source clean

$(BIN)/lingraft: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[data,tensorboard,vectors]'
	@touch $@

$(VENV)/dev: $(BIN)/lingraft
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
		--editable '.[all,docs,lm-eval,ray]' \
		build hypothesis import-linter mypy nbclient pytest pytest-timeout pytest-xdist ruff scikit-learn sentence-transformers seqeval
	@touch $@

install: $(BIN)/lingraft

format: $(VENV)/dev
	$(BIN)/ruff check --fix --quiet .
	$(BIN)/ruff format --quiet .

check: $(VENV)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(VENV)/dev
	HF_HUB_OFFLINE=1 $(BIN)/pytest -n 2 --dist worksteal -m "not slow"

# Pages that train, whole runs that are killed, several processes: what `make test` leaves out.
test-slow: $(VENV)/dev
	HF_HUB_OFFLINE=1 $(BIN)/pytest -n 2 --dist worksteal -m slow

# Links and anchors are strict; the second command finds requests to other servers and pages that are too long.
docs: $(VENV)/dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir build/site
	$(BIN)/python scripts/check_site.py build/site

# The tutorial's results, which the site shows.
tutorial: $(VENV)/dev
	$(BIN)/python scripts/notebook_page.py docs/tutorial.ipynb

# What is published: an sdist, and a wheel made from it, that work without the repository.
dist: $(VENV)/dev
	$(BIN)/python -m build --outdir dist .

# The image of the Dockerfile; its demo's files show that the package is whole.
docker:
	docker build --tag lingraft .
	docker run --rm lingraft demo --files-to /tmp/demo

# make release-check TAG=v0.2.0: the version is the same in pyproject.toml, CITATION.cff, CHANGELOG.md and the tag.
release-check: $(VENV)/dev
	$(BIN)/python scripts/check_release.py $(TAG)

demo: $(BIN)/lingraft
	HF_HUB_OFFLINE=1 $(BIN)/lingraft demo --out runs/demo

demo-causal: $(BIN)/lingraft
	HF_HUB_OFFLINE=1 $(BIN)/lingraft adapt recipes/demo-causal.toml --out runs/demo-causal

# The table and the picture in README.md: three seeds of three methods (about half an hour).
demo-seeds: $(BIN)/lingraft
	HF_HUB_OFFLINE=1 $(BIN)/lingraft study run research/recipes/study-demo.toml --out runs/study-demo
	$(BIN)/python research/scripts/archive.py pack study-demo runs/study-demo/results.jsonl
	$(BIN)/python scripts/readme_demo.py runs/study-demo/results.jsonl
	$(BIN)/python research/scripts/results_page.py

# The English model that ships in demo/source, trained again from its text (Debian, apt-get; about an hour).
demo-source: $(BIN)/lingraft
	$(BIN)/python scripts/build_demo_data.py --english build/demo-english
	$(BIN)/lingraft adapt recipes/demo-source.toml --out runs/demo-source

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .mypy_cache .ruff_cache
