#!/bin/sh
# Every figure that podfall is measured by, in one run, each beside what it is to be
# measured against. Ratios within a run are worth quoting; absolute times on a machine
# that others use are not.
set -eu

bench() {
	title=$1 package=$2 pattern=$3 time=$4
	printf '\n== %s\n' "$title"
	go test "$package" -run '^$' -bench "$pattern" -benchtime "$time" -timeout 60m | grep '^Benchmark' | column_per_metric
}

# One metric a line reads better than go test's one line a benchmark.
column_per_metric() {
	awk '{ printf "%s (%s times)\n", $1, $2; for (i = 3; i < NF; i += 2) printf "    %14s %s\n", $i, $(i + 1) }'
}

bench 'store: writes a second, beside raw bbolt group commit with fsync' ./services/apiserver/store 'BenchmarkCommit' 20000x
bench 'bus: a request and its answer, beside raw NATS' ./internal/bus 'BenchmarkRequest' 20000x
bench 'watch: deliveries a second and CPU for each, at 1, 100 and 1000 watchers' ./services/apiserver/watch 'BenchmarkDeliver' 2s
bench 'apiserver: lifecycles and forced deletes over the bus, one process' ./services/apiserver 'Benchmark' 5000x
bench 'runtime: containers started and stopped' ./services/runtime 'Benchmark' 2s
bench 'runtime: real programs started and stopped, with and without namespaces' ./services/runtime/procengine 'BenchmarkLifecycle' 100x
bench 'a whole cluster of processes: 1,000 pods on 10 nodes, 64 writers' ./e2e/procs 'BenchmarkLifecycle' 3x
bench 'DELETE to DELETED beyond the container itself, ticks at their fastest and as upstream' ./e2e/procs 'BenchmarkDeleteToDeleted' 10x
bench 'podfall up --nodes 3, and the proportional memory of each process' ./e2e/procs 'BenchmarkUp' 5x
bench 'an apiserver that was killed serves again: 10,000 pods, beside 100' ./e2e/procs 'BenchmarkAPIServerRestart' 10x
bench 'podfalltest: from nothing to Ready, beside the above' ./podfalltest 'BenchmarkStart' 20x
bench 'gateway: a list of 10,000 pods, beside the same over the bus' ./e2e/gateway 'BenchmarkList' 5x
bench 'gateway: changes told to 1 and to 1,000 HTTP watches' ./e2e/gateway 'BenchmarkWatches' 20x
bench 'gateway: create, get and delete, 1 and 64 at a time for each processor, beside the same over the bus' ./e2e/gateway 'BenchmarkLife' 2000x
bench 'workloads: a Deployment of 1,000 up and down, a StatefulSet of 100, the eviction of a node of 500' ./e2e/controllers 'Benchmark' 1x
