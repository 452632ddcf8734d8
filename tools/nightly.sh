#!/bin/sh
# The long run: tools/nightly.sh LIVES. Every part is tried, also after one that failed; its
# figures are printed, and how long it took.
set -u
export GOGC=400 # as make test
lives=$1
failed=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

part() {
	title=$1
	shift
	printf '\n== %s\n' "$title"
	began=$(date +%s)
	if go test -v -count 1 -timeout 10h "$@" >"$log" 2>&1; then verdict=passed; else
		verdict=FAILED failed=1
		grep -E -A 12 -- '--- FAIL|_test\.go:[0-9]+: ' "$log" | grep -v -e 'figures: ' -e '--- PASS' -e '=== ' | head -200
	fi
	sed -n -e 's/^.*figures: //p' -e 's/^ *|/|/p' -e 's/^ *never met: /never met: /p' "$log"
	printf '%s in %d s\n' "$verdict" "$(($(date +%s) - began))"
}

part "$lives lives of an hour" ./e2e/sim -run 'TestSeeds$' -seeds "$lives"
part '2,000 lives in which nothing breaks' ./e2e/sim -run 'TestSeeds$' -seeds 2000 -quiet
part 'every order, and every pair of faults' ./e2e/sim -run 'TestExplore$' -faults 2
part 'every planted bug' ./e2e/mutants -run 'TestMutants$' -all
part 'bugs of upstream, hunted and told in short' ./e2e/mutants -run 'TestHunt$' -all
part 'power cuts, damage and kill -9 of the apiserver'\''s store' ./services/apiserver/store -run 'TestPowerCuts|TestDamagedFiles|TestKilled' -images 200000 -damaged 20000 -kills 1000
part 'the same of the runtime'\''s' ./services/runtime/store -run 'TestPowerCuts|TestDamagedFiles' -images 20000 -damaged 10000
part 'five times 60 faults over real processes' ./e2e/nemesis -run 'TestNemesis$' -seed 0 -faults 60 -count 5
part '200 rounds of kill -9 of processes' ./e2e/procs -run 'TestCrash$' -rounds 200
part '500 random programs' ./e2e/procs -run TestShimRecordsMatchPrograms -rounds 500
part '1,000 random pods' ./e2e/signals -pods 1000
part '1,000 causes, and what why says' ./e2e/why -runs 1000
exit $failed
