# FlowFabric for Go. `make` lists the targets; .ci/run and .github/workflows/ci.yml call `make ci` and nothing else.

GO         ?= go
TOOL        = $(GO) tool -modfile=tools/go.mod
GOFILES     = $$(find . -name '.?*' -prune -o -name '*.go' -print)
FETCH       = $(GO) run ./internal/test/testserver/fetch
TESTRUN     = $(GO) run ./internal/test/testrun

# What the race detector needs beside Go: a C compiler.
RACE        = cc=$$($(FETCH) -cc) && CGO_ENABLED=1 CC=$$cc
ALL_ENGINES = FLOWFABRIC_TEST_ENGINES=embedded,redis,valkey

# Modules of their own below this one, so that its own dependencies stay few. go.work joins them for `go run ./cmd/flowfabric`; what
# make does with this module does not see them.
MODULES = server mcpserver cmd/flowfabric console console/dev examples/http-workers internal/test/linearizability
# The comparison with other systems is a module that go.work does not join, so that what these need changes no version of
# ours. Temporal's server, a module below it, is compiled and checked by `make peers` only: that takes minutes.
PEERS   = bench/peers
IN_EACH = for module in $(MODULES); do (cd $$module && export GOWORK="$(CURDIR)/go.work" &&
export GOWORK := off

# A checkout that another user owns, as in a container, would otherwise not build.
export GOFLAGS := $(strip -buildvcs=false $(GOFLAGS))

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: unit
unit: ## Quick tests on the embedded engine, for the loop of editing and testing: a minute
	@$(TESTRUN) unit

.PHONY: test
test: ## All tests on the embedded engine, the suites of engines on Redis and Valkey, the server, the command, the console
	@$(TESTRUN) test

.PHONY: test-all
test-all: ## The matrix: the race detector, every engine, a cluster, contract mode
	@$(TESTRUN) all

.PHONY: ci
ci: lint verify types test test-all ## Everything that must pass before a change lands

.PHONY: fmt
fmt: ## Format the code
	$$($(GO) env GOROOT)/bin/gofmt -w $(GOFILES)

.PHONY: lint
lint: format workflows golangci circles ## Check format, go.mod, workflows, circles of files, and the code as .golangci.yaml says

.PHONY: format
format:
	@unformatted=$$($$($(GO) env GOROOT)/bin/gofmt -l $(GOFILES)) || exit; \
	if [ -n "$$unformatted" ]; then echo "not formatted, run 'make fmt':"; echo "$$unformatted"; exit 1; fi
	$(GO) mod tidy -diff
	tools/tidy.sh -check $(MODULES) deploy/check
	cd $(PEERS) && $(GO) mod tidy -diff

# Without shellcheck and pyflakes, which not every machine has, the result is the same everywhere.
.PHONY: workflows
workflows:
	$(TOOL) actionlint -shellcheck= -pyflakes= .github/workflows/*.yml

.PHONY: golangci
golangci:
	@golangci=$$($(GO) tool -modfile=tools/golangci/go.mod -n golangci-lint) && echo "golangci-lint run ./..." && $$golangci run --allow-parallel-runners ./... && \
	$(IN_EACH) echo "$$module: golangci-lint run ./..." && $$golangci run --allow-parallel-runners ./...) || exit; done && \
	cd $(PEERS) && echo "$(PEERS): golangci-lint run ./..." && $$golangci run --allow-parallel-runners ./...

# The files of a package that depend on each other in a circle have to be read together. See internal/test/circles.
.PHONY: circles
circles: ## Fail when files of a package depend on each other in a large circle
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && trap 'exit 1' INT TERM && \
	$(GO) build -o "$$dir" ./internal/test/circles && "$$dir/circles" ./... && $(IN_EACH) "$$dir/circles" ./...) || exit; done

# The description of the HTTP API and the types of the console come from the table of operations, and the pages of the console are
# built, by programs in modules of their own.
BUNDLE = (export GOWORK="$$PWD/go.work" && cd server && $(GO) run ./internal/document && cd ../console/dev && $(GO) run ./bundle)

.PHONY: generate
generate: ## Write the generated code and the pages of the console anew
	$(GO) generate ./...
	$(BUNDLE)

# Generates in a copy, so neither a dirty tree nor uncommitted work matters, and nothing here changes.
.PHONY: verify
verify: ## Fail when generated code is not what `make generate` writes
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && trap 'exit 1' INT TERM && \
	mkdir "$$dir/committed" "$$dir/generated" && \
	tar --exclude=./.git --exclude=./.cache -cf "$$dir/tree.tar" . && \
	tar -xf "$$dir/tree.tar" -C "$$dir/committed" && tar -xf "$$dir/tree.tar" -C "$$dir/generated" && \
	(cd "$$dir/generated" && $(GO) generate ./... && $(BUNDLE)) && cd "$$dir" && \
	{ diff -Nru committed generated || { echo "generated code is out of date: run 'make generate'" >&2; exit 1; }; }

.PHONY: types
types: ## Check the types of the console's pages, if there is Node
	@if command -v npm >/dev/null; then console/dev/types.sh; else echo "types: there is no npm, nothing was checked" >&2; fi

.PHONY: test-cluster
test-cluster: servers ## The tests that the engines share, on a cluster of three Valkey servers
	FLOWFABRIC_TEST_ENGINES=cluster $(GO) test -count=1 -timeout 15m ./...

.PHONY: stress
stress: servers ## Run a package's tests over and over to find those that fail by chance (PKG=./internal/test/workertest N=10 P=2)
	@mkdir -p .cache/stress && $(RACE) $(GO) test -race -c -o .cache/stress/tests $(PKG) && \
	stress=$$($(TOOL) -n stress) && cd $(PKG) && $$stress -count $(or $(N),10) -p $(or $(P),2) "$(CURDIR)/.cache/stress/tests"

.PHONY: e2e
e2e: ## Click through the examples' pages in a headless Chromium (apt-get install chromium)
	cd e2e && $(GO) vet ./... && $(GO) test -count=1 -timeout 10m ./...

.PHONY: servers
servers: ## Fetch the Redis and Valkey servers and the Chromium that this machine lacks into .cache
	@$(FETCH)
	@$(FETCH) -browser >/dev/null

.PHONY: bench
bench: servers ## Measure throughput, latency and memory (ARGS="..." go to the command)
	$(GO) run ./bench $(ARGS)
	$(if $(ARGS),,@$(MAKE) --no-print-directory bench-console)

.PHONY: peers
peers: ## Compare with asynq, go-workflows, River and Temporal on this machine (ARGS="-only asynq -rounds 5")
	cd $(PEERS) && $(GO) run . $(ARGS)

# Tests of the console log their times; here, on a quiet machine, they fail when these are too long.
.PHONY: bench-console
bench-console: servers ## Measure how quick the console is in a browser, and fail when it is too slow
	cd console/dev && GOWORK="$(CURDIR)/go.work" FLOWFABRIC_TIMES=1 FLOWFABRIC_TEST_ENGINES=embedded \
	$(GO) test ./browsertest -count=1 -v -run 'TestLargeRun|TestManyRuns|TestWindowsShareActions' | grep -E '^ +[a-z_]+\.go|^(---|ok|FAIL|PASS)'

.PHONY: soak
soak: servers ## An hour of all engines at once under faults, at a bounded rate (TIME=3m for less)
	$(ALL_ENGINES) FLOWFABRIC_SOAK=$(or $(TIME),1h) $(GO) test -count=1 -v -timeout 8h -run '^TestSoak$$' ./internal/test/storm

.PHONY: long-tests
long-tests: servers ## All tests, with the long versions of property and crash tests
	$(RACE) $(ALL_ENGINES) FLOWFABRIC_SOAK=1 $(GO) test -race -count=1 -timeout 3h ./...

.PHONY: fuzz
fuzz: ## Run all fuzzers, one after the other (TIME=5m for each; FUZZ=enginecore/embedded or FUZZ=FuzzCron selects)
	@GO="$(GO)" FUZZ_TIME="$(or $(TIME),1m)" FUZZ="$(FUZZ)" tools/fuzz.sh $(MODULES)

.PHONY: vuln
vuln: ## Look for known vulnerabilities (needs the vulnerability database's site)
	$(TOOL) govulncheck ./...

.PHONY: clean
clean: ## Remove what the other targets made, including fetched servers
	rm -rf .cache
	find . -name '.?*' -prune -o -name '*.test' -type f -exec rm -f {} +
