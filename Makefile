# podfall: `make` is what CI runs. Every target works on a fresh clone with Go, make
# and git; tools are built from source into bin/tools at the versions below.

GOLANGCI_LINT_VERSION := v2.15.0
GOFUMPT_VERSION       := v0.12.0

MODULES  := proto internal services/apiserver services/bus services/client services/controllers services/gateway services/kubelet services/runtime podfalltest cmd/podfall e2e
PACKAGES := $(addsuffix /...,$(addprefix ./,$(MODULES)))
TOOLS    := $(CURDIR)/bin/tools
VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

export CGO_ENABLED := 0

.PHONY: all lint vet build test test-race test-crash test-short bench demo generate fmt tidy clean

all: lint vet build test ## what CI runs: format and lint, vet, build, tests

lint: $(TOOLS)/golangci-lint ## format (gofumpt, gci), rules (.golangci.yml), generated code, go.mod files
	@sh tools/lint.sh $(TOOLS)/golangci-lint $(MODULES)

vet: ## go vet, inside the workspace
	go vet $(PACKAGES)

build: ## bin/podfall, one static binary
	go build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/podfall ./cmd/podfall

test: build ## every test; the ones over processes use bin/podfall
	go test $(PACKAGES)

test-race: ## the pure cores, the shells and the story files, 20 times, with the race detector
	CGO_ENABLED=1 go test -race -short $(PACKAGES)
	CGO_ENABLED=1 go test -race -count=20 ./e2e/stories/...

test-crash: build ## 200 rounds of kill -9 while deletes run
	go test ./e2e/procs -run TestCrash -rounds 200 -timeout 60m -v

bench: build ## figures, each beside what it is to be measured against
	sh tools/bench.sh

demo: build ## a three-node cluster, a graceful and a forced delete, explained on screen
	sh examples/demo.sh bin/podfall

generate: ## the Go of proto/*.proto and the OpenAPI definitions; golden files and stories are rewritten by go test -update
	cd tools && GOWORK=off go run ./protogen ../proto
	cd tools && GOWORK=off go run ./openapigen ../internal/openapi/definitions.gz

fmt: $(TOOLS)/golangci-lint ## rewrite files to the format
	$(TOOLS)/golangci-lint fmt $(PACKAGES)

tidy: ## go.mod and go.sum of every module
	@for m in $(MODULES) tools; do (cd $$m && GOWORK=off go mod tidy) || exit 1; done

clean:
	rm -rf bin

$(TOOLS)/golangci-lint:
	GOBIN=$(TOOLS) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT_VERSION)
