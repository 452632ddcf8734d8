# podfall: `make` is what CI runs. Every target works on a fresh clone with Go, make
# and git; tools are built from source into bin/tools at the versions below.

GOLANGCI_LINT_VERSION := v2.15.0
GOFUMPT_VERSION       := v0.12.0

MODULES  := . e2e
PACKAGES := $(addsuffix /...,$(MODULES:%=./%))
TOOLS    := $(CURDIR)/bin/tools
COMPOSE   = $(shell docker compose version >/dev/null 2>&1 && echo docker compose || echo docker-compose)
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

export CGO_ENABLED := 0

.PHONY: all lint vet build test test-race nightly mutants fuzz bench compose compose-test demo generate fmt tidy

all: lint vet build test ## what CI runs: format and lint, vet, build, tests

lint: $(TOOLS)/golangci-lint ## format (gofumpt, gci), rules (.golangci.yml), generated code, go.mod files
	@sh tools/lint.sh $(TOOLS)/golangci-lint $(MODULES)

vet: ## go vet, inside the workspace
	go vet $(PACKAGES)

build: ## bin/podfall, one static binary
	go build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/podfall ./cmd/podfall
	ln -sf podfall bin/kubectl-why

test: build ## every test; the ones over processes use bin/podfall, of which go test does not see that it is another
	GOGC=400 go test -count 1 -timeout 30m -vet=off -ldflags '-s -w' $(PACKAGES)

test-race: ## the pure cores, the shells and the story files, 20 times, with the race detector
	CGO_ENABLED=1 go test -race -short $(PACKAGES)
	CGO_ENABLED=1 go test -race -count=20 ./e2e/stories/...

LIVES := 10000
nightly: build ## the long run: LIVES simulated hours, power cuts, damage, kill -9, faults over processes, every planted bug; prints figures
	sh tools/nightly.sh $(LIVES)

mutants: ## every planted bug, and which promise catches it, and the hunt for upstream's; ten of them, changing from day to day, are part of make test
	go test ./e2e/mutants -run 'TestMutants$$|TestHunt$$' -all -timeout 90m -v

FUZZTIME := 30s
fuzz: ## every fuzz target for FUZZTIME
	sh tools/fuzz.sh $(FUZZTIME)

bench: build ## figures, each beside what it is to be measured against
	sh tools/bench.sh

compose: build ## the cluster of compose.yaml, by an engine that can fetch no images
	docker build --target prebuilt --tag podfall:local .
	PODFALL_TARGET=prebuilt $(COMPOSE) up --no-build

compose-test: build bin/kubectl ## partitions, deletes and heals the cluster of compose.yaml
	tools/compose-test.sh bin/kubectl

bin/kubectl: ## stock kubectl, from k8s.io/kubectl
	go build -ldflags '-s -w -X k8s.io/component-base/version.gitVersion=v1.37.2' -o bin/kubectl ./e2e/kubectl

demo: build ## a graceful delete, a forced one and one that hangs, explained on screen
	bin/podfall try

generate: ## the Go of proto/*.proto and the OpenAPI definitions; golden files and stories are rewritten by go test -update
	cd tools && GOWORK=off go run ./protogen ../proto
	cd tools && GOWORK=off go run ./openapigen ../internal/openapi/definitions.gz

fmt: $(TOOLS)/golangci-lint ## rewrite files to the format
	$(TOOLS)/golangci-lint fmt $(PACKAGES)

tidy: ## go.mod and go.sum of every module
	@for m in $(MODULES) tools; do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

$(TOOLS)/golangci-lint:
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
