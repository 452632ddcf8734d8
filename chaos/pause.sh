#!/bin/sh
# Stops every process of a container where it is, as a virtual machine that is frozen.
#
#   chaos/pause.sh kubelet-node-1
#   chaos/resume.sh kubelet-node-1
set -eu
service=${1:?usage: chaos/pause.sh SERVICE}
project=${COMPOSE_PROJECT_NAME:-podfall}
container=$(docker ps -q --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$service")
if [ -z "$container" ]; then
	echo "there is no running container $service in the project $project" >&2
	exit 1
fi
docker pause "$container" >/dev/null
echo "paused $service ($container); chaos/resume.sh $service lets it go on"
