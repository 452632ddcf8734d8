#!/bin/sh
# What CI has to prove within ten minutes: a day's lives, every order, planted bugs, faults
# over processes, power cuts, damage and kill -9. Each part prints what it has played.
set -eu
cd "$(dirname "$0")/../e2e"
exec go test -v -count 1 ./sim ./mutants ./nemesis ../services/apiserver/store -run \
	'TestSeeds$|TestRegressions|TestExplore$|TestMutants$|TestHunt$|TestEveryMutant|TestNemesis$|TestPowerCuts|TestDamagedFiles|TestKilled'
