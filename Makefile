# `make` alone lists what there is. Everything but test-real works with only Go installed.

GO      ?= go
VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
TAGS    := disable_grpc_modules,grpcnotrace
LDFLAGS := -s -w -X main.version=$(VERSION)
ARGS    ?=
SEEDS   ?= 100
SEED    ?= 1

.PHONY: help build run test test-unit test-real sim sim-defects bench lint fmt

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/router: static, stripped, with its version in it
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags "$(LDFLAGS)" -tags $(TAGS) -o bin/router .

run: build ## build, then the demo; ARGS="--for 20s" is handed on
	bin/router demo $(ARGS)

test: test-unit ## every test this machine can run; says what it left out
	test/real/run if-possible

test-unit: ## the tests that need only Go
	$(GO) test ./...

test-real: test-unit ## every test there is, real servers and readers included; nothing may be left out
	CI=true test/real/run

sim: ## random worlds from seeds: SEEDS=1000, or SEED=7 SEEDS=1 to play one again
	$(GO) test -v -count=1 -timeout 0 -tags synctests,$(TAGS) -run TestSeeds ./internal/sim -seeds $(SEEDS) -seed $(SEED) $(ARGS)

sim-defects: ## the simulation against deliberate defects: each must be caught
	$(GO) test -v -count=1 -timeout 0 -tags synctests,defects,$(TAGS) -run TestDefects ./internal/sim $(ARGS)

bench: ## the benchmarks of the packages; bench/ has those of the whole program
	$(GO) test -run '^$$' -bench . -benchmem ./writers ./catalog ./router $(ARGS)

lint: ## gofmt, go vet and, where it is installed, golangci-lint
	@unformatted=$$(git ls-files '*.go' | xargs gofmt -l); if [ -n "$$unformatted" ]; then echo "not formatted: $$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) vet -tags real ./test/real/...
	$(GO) vet -tags synctests,defects ./internal/sim
	@if command -v golangci-lint >/dev/null; then golangci-lint run; else echo "lint: NOT RUN, golangci-lint is not installed"; fi

fmt: ## format the Go files
	gofmt -w $$(git ls-files '*.go')
