#!/bin/sh
# A three-node cluster of separate processes, a pod deleted gracefully, another deleted
# by force, and what happened, on the screen. It leaves nothing behind.
# usage: demo.sh PODFALL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
podfall=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
scratch=$(mktemp -d)
PODFALL_DATA=$scratch/cluster
export PODFALL_DATA
rows=$scratch/rows
watchers=

finish() {
	status=$?
	[ -z "$watchers" ] || kill $watchers 2>/dev/null || true
	"$podfall" down >/dev/null 2>&1 || true
	rm -rf "$scratch"
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() { printf '$ podfall %s\n' "$*"; "$podfall" "$@"; }

# watch shows each event of one pod on the screen, as it comes; watched waits for the last.
watch() {
	"$podfall" get pods --watch --output-watch-events --field-selector "metadata.name=$1" >"$rows" &
	watchers=$!
	until grep -q "$1" "$rows"; do sleep 0.05; done
	tail -n +1 -f "$rows" &
	watchers="$watchers $!"
}
watched() {
	until grep -q DELETED "$rows"; do sleep 0.05; done
	sleep 1.1 # tail looks once a second
	kill $watchers 2>/dev/null || true
	wait $watchers 2>/dev/null || true
	watchers=
}

say "A cluster: a bus, an apiserver, controllers, and a kubelet and a runtime per node"
run up --nodes 3 --detach
run status
run get nodes

say "A real manifest, and a pod that ignores SIGTERM"
cd "$here"
run apply -f minio-standalone-pvc.yaml -f minio-pod.yaml -f stubborn-pod.yaml
run wait --for=condition=Ready pod/minio pod/stubborn --timeout=30s
run get pods -o wide

say "GRACEFUL: round 1 marks the pod with a deadline, round 2 stops it on its node,
# round 3 confirms and removes. Each row is one event that every watcher sees."
watch minio
run delete pod minio
watched
run events --for pod/minio

say "FORCED: the object goes at once; nobody waits for the node. The container ignores
# SIGTERM, so the runtime kills it 2 s later, when the API has long forgotten the pod."
watch stubborn
run delete pod stubborn --force --grace-period=0
watched
run get pods

say "What the node did meanwhile, as its runtime wrote it down"
until grep -q 'container exited.*default/stubborn' "$PODFALL_DATA"/log/runtime-*.log; do sleep 0.1; done
sed -n 's/^time=\([^ ]*\) .*msg="\([^"]*\)".*pod=default\/stubborn uid=[^ ]* *\(.*\)$/\1 \2 \3/p' "$PODFALL_DATA"/log/runtime-*.log

say "What happened: the graceful delete was answered at once, but the object stayed until its
# kubelet had stopped the container and said so with a second DELETE (grace 0, by UID).
# The forced delete was MODIFIED and DELETED in one breath, before the container ended."
run down
