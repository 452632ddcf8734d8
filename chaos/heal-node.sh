#!/bin/sh
# Ends a cut that chaos/partition-node.sh has made.
#
#   chaos/heal-node.sh node-1
set -eu
node=${1:?usage: chaos/heal-node.sh NODE}
project=${COMPOSE_PROJECT_NAME:-podfall}
container=$(docker ps -q --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=kubelet-$node")
if [ -z "$container" ]; then
	echo "there is no running container kubelet-$node in the project $project" >&2
	exit 1
fi
docker network connect "${project}_cluster" "$container"
echo "healed $node: its kubelet ($container) is on the network ${project}_cluster again"
