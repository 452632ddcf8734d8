#!/bin/sh
# Runs every fuzz target for a time, one after the other: tools/fuzz.sh TIME
# What is found is written to testdata/fuzz of its package: to be committed with the fix.
set -eu
time=$1
failed=0
said=$(mktemp)
trap 'rm -f "$said"' EXIT
for file in $(grep -rl --include='*_test.go' '^func Fuzz' . | sort); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9]*\)(.*/\1/p' "$file"); do
		echo "== $(dirname "$file") $target"
		if ! go test "./$(dirname "$file")" -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 20x -parallel 1 >"$said" 2>&1; then
			# The time that is over while an input runs is told as a failure (golang.org/issue/75804).
			grep -q '^    context deadline exceeded$' "$said" && ! grep -q 'Failing input' "$said" || failed=1
		fi
		cat "$said"
	done
done
exit $failed
