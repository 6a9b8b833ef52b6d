# FlowFabric for Go. `make` lists the targets; .ci/run and .github/workflows/ci.yml call `make test` and nothing else.

GO         ?= go
GOVULNCHECK = $(GO) tool -modfile=tools/go.mod govulncheck
GOFILES     = $$(find . -name '.?*' -prune -o -name '*.go' -print)
FETCH       = $(GO) run ./internal/test/testserver/fetch

# What a test needs beside Go: the real servers, and a C compiler for the race detector.
ALL_ENGINES = FLOWFABRIC_TEST_ENGINES=embedded,redis,valkey
RACE        = cc=$$($(FETCH) -cc) && CGO_ENABLED=1 CC=$$cc $(ALL_ENGINES)

# What `make test` saves: nobody looks at a test with a debugger, and without its data all is compiled in three quarters of the time;
# with some more memory, all programs spend less time on collecting garbage.
NO_DEBUGGER = -gcflags=all=-dwarf=false

# The Lua interpreter, the check of the keyspace and the constructors of commands work by themselves on what they have: watching
# them for races would take a third of the time of all tests and find nothing.
LIBRARY = github.com/flowfabric/flowfabric-go
GCFLAGS = $(NO_DEBUGGER) '-gcflags=github.com/yuin/gopher-lua/...=-race=false -dwarf=false' \
	'-gcflags=$(LIBRARY)/internal/test/invariant=-race=false -dwarf=false' \
	'-gcflags=github.com/redis/rueidis/...=-d=checkptr=0 -dwarf=false' \
	'-gcflags=github.com/redis/rueidis/internal/cmds=-race=false -dwarf=false'
RACE_FLAGS = -race $(GCFLAGS)

# Packages that make one call after the other and compare replies, that measure memory, that read sources, and the benchmarks, whose one
# test runs each of them, run without the race detector. The longest packages start first.
CALL_BY_CALL = ./internal/test/enginetest ./internal/test/conformance/... ./internal/test/contracttest ./bench ./internal/test/apidoc \
	./internal/test/importtest ./internal/test/sizetest ./internal/test/sleeptest ./internal/test/wordtest ./codegen ./lua
# Tests of the embedded engine that do the same: each command goes to it and to a server, and the replies are compared.
DIFFERENTIAL = ^TestDifferential
# Tests that count allocations, which the race detector changes, run without it in addition. Of package runtime they are compiled
# by themselves: all its tests would take half a minute.
ALLOCATIONS  = cost_allocs_internal_test.go cost_internal_test.go export_test.go
LONGEST      = ./runtime ./internal/test/childtest ./examples/dag-pipeline ./internal/test/storm ./internal/test/clustertest
OTHERS       = $$($(GO) list ./... | grep -vE '/(internal/test/(apidoc|conformance|contracttest|enginetest|importtest|sizetest|sleeptest|wordtest)|bench|codegen|lua)(/|$$)')

# The timeout is a fail-safe, no measure: a machine may be busy. Tests wait a lot, so more packages run at a time than there are processors.
# `make test` vets all packages once, with `analyze`.
RUN = -count=1 -timeout 40m -vet=off

# Suites that `make test` runs on a cluster as well, beside enginetest; `make test-cluster` runs all of them there.
ON_CLUSTER = ./admin ./internal/test/accesstest ./internal/test/budgettest ./internal/test/scheduletest ./internal/test/childtest

# Modules of their own below this one, so that its own dependencies stay few. go.work joins them for `go run ./cmd/flowfabric`; what
# make does with this module does not see them.
MODULES = server mcpserver cmd/flowfabric console console/dev examples/http-workers internal/test/linearizability
# The comparison with other systems is a module that go.work does not join, so that what these need changes no version of
# ours. Temporal's server, a module below it, is compiled and checked by `make peers` only: that takes minutes.
PEERS   = bench/peers
IN_EACH = for module in $(MODULES); do (cd $$module && export GOWORK="$(CURDIR)/go.work" &&
export GOWORK := off

# A checkout owned by somebody else, as in a container, would otherwise not build. Without its path in them, packages are compiled
# once for all checkouts of a machine.
export GOFLAGS := $(strip -buildvcs=false -trimpath $(GOFLAGS))

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: export GOFLAGS += $(NO_DEBUGGER)
test: export GOGC = 200
test: format servers ## Everything CI checks: lint, drift, and all tests with -race on embedded, Redis and Valkey, some on a cluster
	@$(MAKE) --no-print-directory -j2 test-engines test-beside

# The two parts of `make test`, which run at the same time. The second one uses the cluster and looks at the sources last:
# what they need has been compiled for the first one by then.
.PHONY: test-engines test-beside
test-engines:
	$(RACE) $(GO) test $(RACE_FLAGS) $(RUN) -p 3 -skip '$(DIFFERENTIAL)' $(LONGEST) $(OTHERS)

test-beside:
	$(ALL_ENGINES) $(GO) test $(RUN) -p 2 $(CALL_BY_CALL)
	$(ALL_ENGINES) $(GO) test $(RUN) -run '$(DIFFERENTIAL)' ./enginecore/embedded
	$(GO) test $(RUN) -run Allocat ./internal/enginerpc
	cd runtime && $(GO) test $(RUN) -run Allocat $$($(GO) list -f '{{join .GoFiles " "}}' .) $(ALLOCATIONS)
	FLOWFABRIC_TEST_ENGINES=cluster $(GO) test $(RUN) ./internal/test/enginetest
	$(RACE) FLOWFABRIC_TEST_ENGINES=cluster $(GO) test $(RACE_FLAGS) $(RUN) -p 2 $(ON_CLUSTER)
	@$(MAKE) --no-print-directory test-modules verify types workflows analyze circles RACED=1

.PHONY: test-modules
test-modules: ## The tests of the server and the command, with -race on embedded, Redis and Valkey
	$(RACE); export CGO_ENABLED CC FLOWFABRIC_TEST_ENGINES; $(IN_EACH) $(GO) test $(RACE_FLAGS) $(RUN) ./...) || exit; done
	cd deploy/check && $(GO) test $(RUN) ./...
	cd $(PEERS) && $(GO) test $(RUN) ./...

.PHONY: fmt
fmt: ## Format the code
	$$($(GO) env GOROOT)/bin/gofmt -w $(GOFILES)

.PHONY: lint
lint: format workflows analyze circles ## Check format, go.mod, the workflows of GitHub, go vet, staticcheck and circles of files

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
	$(GO) tool -modfile=tools/go.mod actionlint -shellcheck= -pyflakes= .github/workflows/*.yml

# Vet and staticcheck need all packages compiled. `make test` lets them use those of the race detector, which it has.
ANALYZE = $(if $(RACED),$(RACE); export CGO_ENABLED CC GOFLAGS="$$GOFLAGS $(RACE_FLAGS)";)
.PHONY: analyze
analyze:
	$(ANALYZE) $(GO) vet ./... && $(IN_EACH) $(GO) vet ./...) || exit; done
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && trap 'exit 1' INT TERM && \
	$(GO) build -modfile=tools/go.mod -o "$$dir" honnef.co/go/tools/cmd/staticcheck && \
	{ $(ANALYZE) echo staticcheck ./... && "$$dir/staticcheck" ./... && \
	$(IN_EACH) "$$dir/staticcheck" ./...) || exit; done; } && \
	cd $(PEERS) && $(GO) vet ./... && "$$dir/staticcheck" ./...

# The files of a package that depend on each other in a circle have to be read together. See internal/test/circles.
.PHONY: circles
circles: ## Fail when files of a package depend on each other in a large circle
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && trap 'exit 1' INT TERM && \
	$(GO) build -o "$$dir" ./internal/test/circles && { $(ANALYZE) "$$dir/circles" ./... && \
	$(IN_EACH) "$$dir/circles" ./...) || exit; done; }

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

.PHONY: unit
unit: ## Quick tests: no race detector, no servers, embedded engine only
	FLOWFABRIC_TEST_ENGINES=embedded $(GO) test ./...

.PHONY: test-cluster
test-cluster: servers ## The tests that the engines share, on a cluster of three Valkey servers
	FLOWFABRIC_TEST_ENGINES=cluster $(GO) test -count=1 -timeout 15m ./...

.PHONY: shake
shake: servers ## Run a package's tests N times to find those that fail by chance (PKG=./runtime N=10 LOAD=2)
	$(RACE) GOFLAGS="$$GOFLAGS $(GCFLAGS)" $(GO) run ./internal/test/shake -n $(or $(N),10) -load $(or $(LOAD),0) $(PKG)

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
	$(GO) test ./browsertest -count=1 -v -run 'TestLargeRun|TestManyRuns|TestOneWindowSeesTheOther' | grep -E '^ +[a-z_]+\.go|^(---|ok|FAIL|PASS)'

.PHONY: soak
soak: servers ## An hour of all engines at once under faults, at a bounded rate (TIME=3m for less)
	$(ALL_ENGINES) FLOWFABRIC_SOAK=$(or $(TIME),1h) $(GO) test -count=1 -v -timeout 8h -run '^TestSoak$$' ./internal/test/storm

.PHONY: long-tests
long-tests: servers ## All tests, with the long versions of property and crash tests
	$(RACE) FLOWFABRIC_SOAK=1 $(GO) test -race -count=1 -timeout 3h ./...

.PHONY: fuzz
fuzz: ## Run all fuzzers, one after the other (TIME=5m for each; FUZZ=enginecore/embedded or FUZZ=FuzzCron selects)
	@GO="$(GO)" FUZZ_TIME="$(or $(TIME),1m)" FUZZ="$(FUZZ)" tools/fuzz.sh $(MODULES)

.PHONY: vuln
vuln: ## Look for known vulnerabilities (needs the vulnerability database's site)
	$(GOVULNCHECK) ./...

.PHONY: clean
clean: ## Remove what the other targets made, including fetched servers
	rm -rf .cache census-report approval-site
	find . -name '.?*' -prune -o -name '*.test' -type f -exec rm -f {} +
