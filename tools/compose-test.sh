#!/bin/sh
# Brings the compose cluster up with this machine's engine, cuts a node off, deletes pods
# gracefully and by force across the cut, heals it, pauses and kills what else there is, and
# looks at the outcome with kubectl. Nothing is left afterwards. It needs no registry: the
# image is bin/podfall and nothing else.
#
#   tools/compose-test.sh [KUBECTL]
set -eu
cd "$(dirname "$0")/.."
export COMPOSE_PROJECT_NAME=podfall-test PODFALL_TARGET=prebuilt PODFALL_PORT=16443 PODFALL_SPEED=20
kubectl=${1:-kubectl}
work=$(mktemp -d)
compose=docker-compose
if docker compose version >/dev/null 2>&1; then
	compose="docker compose"
fi

end() {
	status=$?
	if [ $status -ne 0 ]; then
		$compose logs --tail 20 >&2 || true
	fi
	$compose down --volumes --timeout 5 >/dev/null 2>&1 || status=1
	rm -rf "$work"
	for kind in container network volume; do
		if [ -n "$(docker $kind ls -q --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME")" ]; then
			echo "a $kind of the test is left" >&2
			status=1
		fi
	done
	exit $status
}
trap end EXIT
trap 'exit 130' INT TERM

say() { printf '== %s\n' "$*"; }

# eventually CONDITION...: waits until a command succeeds, for five minutes at least: that only
# bounds a failure.
eventually() {
	tries=0
	until "$@" >"$work/last" 2>&1; do
		tries=$((tries + 1))
		if [ $tries -gt 1500 ]; then
			echo "never came true: $*" >&2
			cat "$work/last" >&2
			exit 1
		fi
		sleep 0.2
	done
}

kubeconfig() { (umask 077 && $compose exec -T gateway /podfall kubeconfig >"$work/kubeconfig"); }
k() { "$kubectl" --kubeconfig "$work/kubeconfig" "$@"; }
podfall() { $compose exec -T bus /podfall "$@"; }
shows() { text=$1; shift; "$@" | grep -q "$text"; }
why() { podfall why "$1" >"$work/why" 2>&1 || [ $? -eq 3 ]; }
because() { why "$1" && grep -q "$2" "$work/why"; }

say "a cluster of containers"
docker build --quiet --target prebuilt --tag podfall:local . >/dev/null
$compose up --detach --no-build >/dev/null 2>"$work/up" || { cat "$work/up" >&2; exit 1; }
eventually kubeconfig
eventually k wait --for=condition=Ready node --all --timeout=0s
ports=$(docker ps --filter "label=com.docker.compose.project=$COMPOSE_PROJECT_NAME" --format '{{.Ports}}' | grep -o '[0-9.:]*->' | sort -u)
if [ "$ports" != "127.0.0.1:$PODFALL_PORT->" ]; then
	echo "published: $ports, want 127.0.0.1:$PODFALL_PORT alone" >&2
	exit 1
fi

for name in graceful forced; do
	k create -f - >/dev/null <<POD
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "$name"},
 "spec": {"nodeName": "node-1", "containers": [{"name": "main", "image": "web"}]}}
POD
done
eventually k wait --for=condition=Ready pod/graceful pod/forced --timeout=0s

say "node-1 is cut off"
chaos/partition-node.sh node-1
k delete pod graceful --wait=false
k delete pod forced --force
eventually shows 'node-1 *NotReady' k get nodes
shows 'graceful.*Terminating' k get pods
if k get pod forced >/dev/null 2>&1; then
	echo "forced is still there" >&2
	exit 1
fi
eventually because pod/graceful STK-06
cat "$work/why"
eventually shows forced podfall truth node-1

say "the cut is healed"
chaos/heal-node.sh node-1
eventually shows 'node-1 *Ready' k get nodes
eventually k wait --for=delete pod/graceful --timeout=0s
runs() { podfall truth node-1 | grep -q forced; }
runs_no_more() { ! runs; }
eventually runs_no_more

say "a cut of podfall's own is told of"
podfall cut node-2 >/dev/null
shows 'cut-node-2' podfall status
podfall heal node-2 >/dev/null

say "a kubelet is paused"
k create -f - >/dev/null <<'POD'
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "paused"},
 "spec": {"nodeName": "node-2", "containers": [{"name": "main", "image": "web"}]}}
POD
eventually k wait --for=condition=Ready pod/paused --timeout=0s
chaos/pause.sh kubelet-node-2
k delete pod paused --wait=false
eventually shows 'node-2 *NotReady' k get nodes
chaos/resume.sh kubelet-node-2
eventually k wait --for=delete pod/paused --timeout=0s

say "a runtime is killed"
k create -f - >/dev/null <<'POD'
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "killed"},
 "spec": {"nodeName": "node-3", "containers": [{"name": "main", "image": "web"}]}}
POD
eventually k wait --for=condition=Ready pod/killed --timeout=0s
chaos/kill.sh runtime-node-3
k delete pod killed --wait=false
eventually because pod/killed STK-09
chaos/start.sh runtime-node-3
eventually k wait --for=delete pod/killed --timeout=0s
say "all as it should be"
