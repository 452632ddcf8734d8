// Package sim plays a whole cluster in one goroutine, but for the webhooks of one request, which are
// asked at once and only look: the pure cores of apiserver,
// kubelet, runtime and controllers, with virtual time and with a network, disks, clocks and
// applications that break by seed. One seed is one life, bit for bit, on any machine.
//
//	process.go    what a process is, and what it can do
//	messages.go   what processes say to the apiserver, and what applications do
//	client.go     asks the apiserver         follow.go   keeps a copy of what it has
//	world.go      time, crashes, the history    queue.go   what is coming    trace.go   all of it, to be hashed
//	acting.go     a process's hands          net.go      links that lose, repeat, delay and are cut
//	apiserver.go  the product's apiserver behind a simulated disk
//	controllers*.go, views.go   the controllers, and their copies
//	controllers_daemons.go, controllers_jobs.go, controllers_budgets.go   those of sets and
//	              budgets that only some lives have; draw_sets.go, user_sets.go, right_sets.go
//	              draw them, make them, and say how they must end; draw_jobs.go, right_jobs.go those of Jobs
//	controllers_cronjobs.go, draw_cronjobs.go, user_cronjobs.go, right_cronjobs.go   CronJobs, which one
//	              life in five has; nobody follows them in the others
//	controllers_deployments.go, draw_deployments.go, user_deployments.go, right_deployments.go
//	              Deployments, which every fourth life has, and nobody follows in the others
//	controllers_binder.go, controllers_disks.go, kubelet_disks.go   volumes that have to be attached,
//	              which every other life has; draw_disks.go, user_disks.go, right_disks.go, met_disks.go
//	              draw them, make them, say how they must end, and count what became of them
//	user.go       does what a script says    script.go   all that decides a life
//	draw.go       a script from a seed       lives.go    plays a script, and judges it
//	hooks.go, user_hooks.go   webhooks, and who makes them
//	cascades.go   what users delete with all that hangs on it    draw_claims.go   pods that change hands
//	right.go      how a life must end        watcher.go  watches from any revision
//	shrink.go     makes a story of a life that broke something
//	kernel.go     what of a node outlives its processes   app.go   what its applications do
//	tasks.go, tasks_clock.go   coroutines on which the product's own shells run, and their clock
//	kubelet*.go   a node's kubelet: the product's, on a simulated node    runtime*.go  its runtime
//	kubelet_workers.go, kubelet_node.go   make the product's shells; kubelet_calls.go, kubelet_api.go
//	              and kubelet_volumes.go are the runtime, the apiserver and the volumes to them
//	shape.go      what pods have beside a container   break.go, twin.go   what else breaks
//	clocks.go     clocks that read wrong, in every fourth life
//	observe.go    what is seen from outside: why, and split-brain windows   met.go   what a life has met
//	matrix.go, phases.go   which faults have met which phases of a deletion
//	explore.go    plays one story in every order          explore_plan.go   decides what comes next
//
// # Shells
//
// The kubelet's pod workers, status reporter, prober and node run here as they are: in tasks,
// by internal/task. A task is a coroutine, which runs until it waits: for the runtime, for the
// apiserver, for a time, for another task. After each step of its process, tasks go on that
// can, in the order in which they began to wait. A crash unwinds them where they are
// (docs/adr/0032-one-shell-two-drivers.md).
//
// # Time
//
// A Step is given the time itself: alarms and waits go by it. What goes into an object, or is
// compared with what is in one, a driver takes from [Clocks.Shows], which is what the process'
// clock shows, right or wrong. Which of both a core gets is what the product's shell gives it:
// clock.Clock's Steady or Now.
//
// # To live
//
//	go test ./sim -run TestSeeds                        today's thousand lives, and those that are kept
//	go test ./sim -run TestSeeds -seeds 1000 -from 1    others, each put to the test
//	go test ./sim -run TestSeeds -seeds 1000 -quiet     lives in which nothing breaks
//	go test ./sim -run TestReplay -seed 17              one of them, and its story; -out DIR leaves its history
//	go test ./sim -run xxx -bench Hour                  what an hour costs
//
// The first life that breaks something is shrunk, told in at most ten lines, and kept in
// testdata/regressions, which TestRegressions plays from then on. Mistakes are planted by
// package mutants, in an overlay, whose TestHunt has the lives of the same seeds find them. Lives of even seeds have
// trouble to the end; in those of odd seeds it ends after three quarters, and then all has
// to be calm and right.
//
// # To add a process
//
// Write a type with a Step, and have its place made by [World.Add] in the function that
// builds a life (lives.go). In Boot it makes a [Client] with its identity and boot, and a
// [Follower] for each kind of object that it wants to know of, and starts those. After that
// it hands each input to its client, then to its followers, and looks at itself only what
// none of them has taken. Its views are then the followers' sinks, and its writes
// [Client.Do], whose continuation gets the answer. A crash is the end of all of it: what
// has to be known afterwards is persisted.
//
// Links between processes whose names end in the same node (kubelet/node-1 and
// runtime/node-1) are on one machine: 0.2 ms, nothing lost. All others go over the network.
//
// Names of calls and messages (the about of [Out.Call], and About() of a body that is sent)
// must not contain UIDs or counters: the network decides by them, and a life that is
// shrunk must keep its other decisions. Bodies with a Trace method take part in the hash.
package sim
