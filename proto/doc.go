// Package proto is the contract between podfall's processes. It holds plain data and pure
// functions: the subjects, the envelopes (envelope.proto, runtime.proto and the Go generated from
// them), identities, errors and the table of differences between the releases that podfall can
// imitate.
//
// # One pod, deleted in three rounds
//
//	client              apiserver                kubelet               runtime
//	  |                     |                       |                     |
//	  |------ DELETE ------>|                       |                     |   round 1: mark
//	  |                     | deletionTimestamp     |                     |   The object stays. It now
//	  |<----- 200, pod -----| = now + grace         |                     |   carries a deadline.
//	  |                     |------ MODIFIED ------>|                     |
//	  |                     |                       |--- StopContainer -->|   round 2: stop
//	  |                     |                       |    stop signal, up  |   preStop, the stop signal,
//	  |                     |                       |    to grace, KILL   |   SIGKILL when grace is used
//	  |                     |                       |<------- exited -----|   up; then sandbox, volumes
//	  |                     |                       |-- StopPodSandbox -->|   and cgroup.
//	  |                     |<--- UPDATE status ----|                     |   A terminal phase.
//	  |                     |                       |                     |
//	  |                     |<-- DELETE, grace 0 ---|                     |   round 3: confirm and remove
//	  |                     |    precondition: uid  |                     |   The same verb again; this
//	  |<----- DELETED ------|------ DELETED ------->|                     |   time it removes the object.
//
// A forced delete is a round 1 with grace 0: it marks and removes at once. Round 2 happens later,
// without the object, if it happens at all. Nothing is left to confirm.
//
// # Versions
//
// Every envelope carries [Version]. A receiver refuses other versions and names its own.
package proto

//go:generate go run -C ../tools ./protogen ../proto

// Version is the contract's version. It changes when an old receiver would
// misunderstand a new sender.
const Version = 1
