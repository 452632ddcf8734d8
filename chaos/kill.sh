#!/bin/sh
# Kills a process of the compose cluster with SIGKILL. It stays dead until chaos/start.sh.
#
#   chaos/kill.sh runtime-node-1
#   chaos/start.sh runtime-node-1
set -eu
service=${1:?usage: chaos/kill.sh SERVICE}
project=${COMPOSE_PROJECT_NAME:-podfall}
container=$(docker ps -q --filter "label=com.docker.compose.project=$project" --filter "label=com.docker.compose.service=$service")
if [ -z "$container" ]; then
	echo "there is no running container $service in the project $project" >&2
	exit 1
fi
docker kill --signal KILL "$container" >/dev/null
echo "killed $service ($container); chaos/start.sh $service starts it again"
