#!/bin/sh
# Starts a process of the compose cluster that chaos/kill.sh has killed.
#
#   chaos/start.sh runtime-node-1
set -eu
service=${1:?usage: chaos/start.sh SERVICE}
project=${COMPOSE_PROJECT_NAME:-podfall}
container=$(docker ps -aq --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$service")
if [ -z "$container" ]; then
	echo "there is no container $service in the project $project" >&2
	exit 1
fi
docker start "$container" >/dev/null
echo "started $service ($container)"
