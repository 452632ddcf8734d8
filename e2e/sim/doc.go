// Package sim simulates a whole cluster in one goroutine, deterministically. It runs the product's
// apiserver and kubelet, and the pure cores of its runtime and its controllers, in virtual time. The network,
// disks, clocks and applications fail by seed. One seed is one run, bit for bit, on any machine.
// The only other goroutines are those of the webhooks of one request: they are asked in parallel
// and only read.
//
//	process.go    the interface of a process, and what a process can do
//	messages.go   requests to the apiserver, and what applications do
//	client.go     asks the apiserver         follow.go   keeps a copy of the apiserver's objects
//	world.go      time, crashes, the history    queue.go   coming events    trace.go   all events, for hashing
//	acting.go     a process's output         net.go      links that lose, duplicate, delay and are cut
//	apiserver.go  the product's apiserver behind a simulated disk
//	controllers*.go, views.go   the controllers, and their copies of objects
//	controllers_daemons.go, controllers_jobs.go, controllers_budgets.go   controllers of sets and
//	              budgets that only some runs have. draw_sets.go, draw_jobs.go draw the actions,
//	              user_sets.go carries them out, final_sets.go, final_jobs.go check the final state
//	controllers_cronjobs.go, draw_cronjobs.go, user_cronjobs.go, final_cronjobs.go   CronJobs, in
//	              one run of five; the other runs do not watch them
//	controllers_deployments.go, draw_deployments.go, user_deployments.go, final_deployments.go
//	              Deployments, in one run of four; the other runs do not watch them
//	controllers_binder.go, controllers_disks.go, kubelet_disks.go   attachable volumes, in every
//	              other run: draw_disks.go, user_disks.go, final_disks.go, coverage_disks.go
//	user.go       carries out a script's user actions    script.go   everything that decides a run
//	draw.go       draws a script from a seed    run.go   runs a script, and judges the run
//	hooks.go, user_hooks.go   webhooks, and the users that create them
//	cascades.go   cascading deletions by users    draw_claims.go   pods that change owners
//	final.go      checks the final state     watcher.go  watches from any revision
//	shrink.go     shrinks a failed run to a short story
//	kernel.go     the part of a node that outlives its processes   app.go   what its applications do
//	tasks.go, tasks_clock.go   coroutines that run the product's own shells, and their clock
//	kubelet*.go   a node's kubelet: the product's, on a simulated node    runtime*.go  its runtime
//	kubelet_workers.go, kubelet_node.go   make the product's shells. kubelet_calls.go, kubelet_api.go
//	              and kubelet_volumes.go give them the runtime, the apiserver and the volumes
//	shape.go      optional parts of pods     fault_points.go, twin.go   other injected faults
//	clocks.go     skewed clocks, in every fourth run
//	observe.go    the observers: why, and split-brain windows   coverage.go   counts what a run exercised
//	matrix.go, phases.go   which faults met which phases of a deletion
//	invalid_requests.go   checks that no process sends an invalid request
//	decoded.go    a cache of decoded objects    timers.go   functions that run at a time
//	explore.go    plays one story in every order in which its messages can arrive
//	explore_plan.go   chooses the next event of such a run
//
// # Shells
//
// The kubelet's pod workers, status reporter, prober and node run here unchanged, as tasks of
// internal/task. A task is a coroutine. It runs until it waits for the runtime, the apiserver, a
// time or another task. After each step of a process, its tasks that can go on do so, in the order
// in which they began to wait. A crash unwinds them where they are
// (docs/adr/0032-one-shell-two-drivers.md).
//
// # Time
//
// Step is given the simulated time: alarms and timeouts use it. A timestamp that goes into an
// object, or is compared with one in an object, comes from [Clocks.ClockTime]: the process's clock,
// which may be skewed. Each core gets whichever of the two the product's shell gives it:
// clock.Clock's Steady or Now.
//
// # Running
//
//	go test ./e2e/sim -run TestSeeds                        today's thousand runs, and the recorded regressions
//	go test ./e2e/sim -run TestSeeds -seeds 1000 -from 1    other seeds
//	go test ./e2e/sim -run TestSeeds -seeds 1000 -quiet     fault-free runs
//	go test ./e2e/sim -run TestReplay -seed 17              one run, and its story; -out DIR keeps its history
//	go test ./e2e/sim -run xxx -bench Hour                  the cost of an hour
//
// The first run that violates an invariant is shrunk to a story of at most ten lines and kept in
// testdata/regressions, which TestRegressions replays. Package mutants plants bugs in an overlay;
// its TestHunt finds them with runs of the same seeds. Runs of even seeds have faults to the end.
// In runs of odd seeds faults end after three quarters of the time, and the final state is checked.
//
// # Adding a process
//
// Write a type with a Step method. Register the process by [World.Add] in the function that builds
// a run (run.go). On Boot the process makes a [Client] with its identity and boot, makes a
// [Follower] for each kind of object that it needs, and starts them. It hands each later input to
// its client, then to its followers, and handles only what none of them has taken. Its views are
// the followers' sinks. It writes by [Client.Do], and the continuation gets the answer. A crash
// ends all of this: what must survive is persisted.
//
// Links between processes whose names end in the same node (kubelet/node-1 and runtime/node-1) stay
// on one machine: 0.2 ms, nothing lost. All other links cross the network.
//
// Names of calls and messages (the about of [Out.Call], and About() of a body that is sent) must
// not contain UIDs or counters. The network's decisions depend on those names, and a run that is
// shrunk must keep its other decisions. Bodies with a Trace method are part of the hash.
package sim
