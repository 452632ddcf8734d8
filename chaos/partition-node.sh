#!/bin/sh
# Cuts a node of the compose cluster off: its kubelet loses the cluster's network, and keeps
# the node's own, on which its runtime is. Containers run on; nobody is told.
#
#   chaos/partition-node.sh node-1
#   chaos/heal-node.sh node-1
set -eu
node=${1:?usage: chaos/partition-node.sh NODE}
project=${COMPOSE_PROJECT_NAME:-podfall}
container=$(docker ps -q --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=kubelet-$node")
if [ -z "$container" ]; then
	echo "there is no running container kubelet-$node in the project $project" >&2
	exit 1
fi
docker network disconnect "${project}_cluster" "$container"
echo "cut $node: its kubelet ($container) is off the network ${project}_cluster; chaos/heal-node.sh $node heals it"
