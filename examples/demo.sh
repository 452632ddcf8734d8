#!/bin/sh
# A three-node cluster of separate processes, a pod deleted gracefully, another deleted
# by force, and what happened, on the screen. It leaves nothing behind.
# usage: demo.sh PODFALL
set -eu
here=$(cd "$(dirname "$0")" && pwd)
podfall=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
PODFALL_DATA=$(mktemp -d)/cluster
export PODFALL_DATA
watcher=

finish() {
	status=$?
	[ -z "$watcher" ] || kill "$watcher" 2>/dev/null || true
	"$podfall" down --purge >/dev/null 2>&1 || true
	rmdir "$(dirname "$PODFALL_DATA")" 2>/dev/null || true
	exit "$status"
}
trap finish EXIT
trap 'exit 130' INT TERM

say() { printf '\n\033[1m# %s\033[0m\n' "$*"; }
run() { printf '$ podfall %s\n' "$*"; "$podfall" "$@"; }

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
"$podfall" get pods --watch-only --output-watch-events --field-selector metadata.name=minio &
watcher=$!
run delete pod minio
kill "$watcher" 2>/dev/null || true
wait "$watcher" 2>/dev/null || true
watcher=
run events --for pod/minio

say "FORCED: the object goes at once; nobody waits for the node. The container ignores
# SIGTERM, so the runtime kills it 2 s later, when the API has long forgotten the pod."
"$podfall" get pods --watch-only --output-watch-events --field-selector metadata.name=stubborn &
watcher=$!
run delete pod stubborn --force --grace-period=0
run get pods
kill "$watcher" 2>/dev/null || true
wait "$watcher" 2>/dev/null || true
watcher=

say "What the node did meanwhile, as its runtime wrote it down"
until grep -q 'container exited.*default/stubborn' "$PODFALL_DATA"/log/runtime-*.log; do sleep 0.1; done
sed -n 's/^time=\([^ ]*\) .*msg="\([^"]*\)".*pod=default\/stubborn uid=[^ ]* *\(.*\)$/\1 \2 \3/p' "$PODFALL_DATA"/log/runtime-*.log

say "What happened: the graceful delete was answered at once, but the object stayed until its
# kubelet had stopped the container and said so with a second DELETE (grace 0, by UID).
# The forced delete was MODIFIED and DELETED in one breath, before the container ended."
run down
