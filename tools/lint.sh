#!/bin/sh
# Format, rules, generated code and go.mod files of every module; changes nothing.
# usage: lint.sh GOLANGCI_LINT MODULE...
set -eu
linter=$1
shift
packages=
for module in "$@"; do packages="$packages ./$module/..."; done

# shellcheck disable=SC2086
"$linter" run $packages

generated=$(mktemp -d)
trap 'rm -rf "$generated"' EXIT
cp proto/*.proto "$generated"
(cd tools && GOWORK=off go run ./protogen "$generated")
for file in "$generated"/*.pb.go; do
	cmp -s "$file" "proto/$(basename "$file")" || {
		echo "proto/$(basename "$file") is not what its .proto says: run make generate" >&2
		exit 1
	}
done

for module in "$@" tools; do
	(cd "$module" && GOWORK=off go mod tidy -diff >/dev/null) || {
		echo "$module/go.mod is not tidy: run make tidy" >&2
		exit 1
	}
done
