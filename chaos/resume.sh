#!/bin/sh
# Lets a container go on that chaos/pause.sh has stopped.
#
#   chaos/resume.sh kubelet-node-1
set -eu
service=${1:?usage: chaos/resume.sh SERVICE}
project=${COMPOSE_PROJECT_NAME:-podfall}
container=$(docker ps -q --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$service")
if [ -z "$container" ]; then
	echo "there is no container $service in the project $project" >&2
	exit 1
fi
docker unpause "$container" >/dev/null
echo "resumed $service ($container)"
