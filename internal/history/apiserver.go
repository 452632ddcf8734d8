package history

import "time"

// Requests. The apiserver records those that may change something: a call without a return is one whose outcome nobody knows.
type (
	// OpCall is a request as it came; the event's cause is the operation's id.
	OpCall struct {
		// Who is the identity that asks, and Boot its incarnation.
		Who  string `json:"who"`
		Boot string `json:"from,omitempty"`
		Verb string `json:"verb"`
		// Resource is the group resource: deployments.apps.
		Resource string `json:"resource"`
		// Key is namespace/name, or name.
		Key         string `json:"key"`
		Subresource string `json:"subresource,omitempty"`
		// PreUID and PreRevision are a delete's preconditions.
		PreUID      string `json:"pre.uid,omitempty"`
		PreRevision string `json:"pre.rv,omitempty"`
		// Grace is the grace period in seconds that a delete, of one or of many, or an eviction asks for.
		Grace *int64 `json:"grace,omitempty"`
		// Body is a digest of the body.
		Body string `json:"body,omitempty"`
		// DryRun means that nothing is to be changed.
		DryRun bool `json:"dry,omitempty"`
		// Left is the time until the request's deadline on the wall, in milliseconds; nil for
		// a request without one.
		Left *int64 `json:"left,omitempty"`
	}

	// OpReturn is how a request was answered.
	OpReturn struct {
		// Code is the HTTP status code.
		Code int32 `json:"code"`
		// Revision is the resource version of the object that was returned; 0 for none.
		Revision int64 `json:"rv,omitempty"`
		// Object is a digest of that object.
		Object string `json:"obj,omitempty"`
		// MeantUID and MeantRevision are the uid and the resourceVersion of the object that an
		// update carried; empty when it did not say.
		MeantUID      string `json:"meant.uid,omitempty"`
		MeantRevision string `json:"meant.rv,omitempty"`
		// MeantName is the name of the object that a create carried; empty for one that is to
		// be made up.
		MeantName string `json:"meant.name,omitempty"`
		// Warnings is how many came with the answer.
		Warnings int `json:"warnings,omitempty"`
	}
)

// Webhooks.
type (
	// Consulted is an admission webhook that was asked about an object, and its answer; the
	// event's cause is the operation.
	Consulted struct {
		// Hook is configuration/webhook.
		Hook string `json:"hook"`
		// Resource is the group resource: deployments.apps.
		Resource string `json:"resource"`
		// Key is namespace/name, or name.
		Key    string     `json:"key"`
		Answer HookAnswer `json:"answer"`
		// Ignore says that the webhook's failurePolicy lets a failure be passed over.
		Ignore bool `json:"ignore,omitempty"`
	}

	// HookAnswer is what became of a question.
	HookAnswer string
)

// The answers of webhooks.
const (
	HookAllowed HookAnswer = "allowed"
	HookDenied  HookAnswer = "denied"
	// HookFailed is a webhook that was not reached, or has not answered as it should.
	HookFailed HookAnswer = "failed"
)

// The store.
type (
	// Commit is a change of an object, written in the transaction that made it; the event's cause is its operation.
	Commit struct {
		Revision int64 `json:"rv"`
		// Resource is the group resource.
		Resource string `json:"resource"`
		// Key is namespace/name, or name.
		Key string `json:"key"`
		UID string `json:"uid"`
		// Op is ADDED, MODIFIED or DELETED.
		Op string `json:"op"`
		// Previous is the revision that was replaced; 0 for none.
		Previous int64 `json:"prev_rv,omitempty"`
		// Object is a digest of the object as it is stored; none for a deletion.
		Object string `json:"obj,omitempty"`
		// Deadline is the deletionTimestamp.
		Deadline *time.Time `json:"delTs,omitempty"`
		// Grace is the deletionGracePeriodSeconds.
		Grace *int64 `json:"delGrace,omitempty"`
		// Node and Phase are a pod's.
		Node  string `json:"node,omitempty"`
		Phase string `json:"phase,omitempty"`
		Content
	}

	// Content is what else a commit tells of its object.
	Content struct {
		Finalizers []string `json:"finalizers,omitempty"`
		// Created is the creationTimestamp, in seconds of Unix time; 0 for none.
		Created    int64             `json:"created,omitempty"`
		Generation int64             `json:"gen,omitempty"`
		Labels     map[string]string `json:"labels,omitempty"`
		// Owner is the uid of the controller that owns it.
		Owner string `json:"owner,omitempty"`
		// OwnGrace is a pod's terminationGracePeriodSeconds.
		OwnGrace *int64 `json:"ownGrace,omitempty"`
		// Ready is a pod's or a node's condition.
		Ready bool `json:"ready,omitempty"`
		PodSpec
		Wanted
		// Evicting are a node's NoExecute taints: key=value.
		Evicting []string `json:"evicting,omitempty"`
		Holding
		Disks
	}

	// PodSpec is what a commit tells of a pod's spec.
	PodSpec struct {
		// Tolerates are a pod's tolerations of NoExecute taints: key=value:seconds, an empty
		// key for all, no value for any, and no seconds for ever.
		Tolerates []string `json:"tolerates,omitempty"`
		// Sidecars are a pod's restartable init containers, as they are defined, and Regular the
		// containers that they are to outlive: none of a pod without sidecars.
		Sidecars []string `json:"sidecars,omitempty"`
		Regular  []string `json:"regular,omitempty"`
	}

	// Wanted is what a commit tells of those that have pods made.
	Wanted struct {
		// Replicas is how many pods a ReplicaSet or a StatefulSet is to have, and InOrder a
		// StatefulSet that makes one after the other.
		Replicas *int32 `json:"replicas,omitempty"`
		InOrder  bool   `json:"inOrder,omitempty"`
		// Counted is how many pods a Job has counted: as succeeded, as failed, or soon.
		Counted *int32 `json:"counted,omitempty"`
	}

	// Holding is what an object keeps from going.
	Holding struct {
		// Blocks are the uids of the owners whose foreground deletion waits for it, in the order
		// of its references to them.
		Blocks []string `json:"blocks,omitempty"`
		// Budget is a PodDisruptionBudget's; nil for anything else.
		Budget *Budget `json:"budget,omitempty"`
	}

	// Budget is which pods may be evicted, and how many of them.
	Budget struct {
		// Selector is by labels; empty for one that finds no pod, or every pod if All is set.
		Selector string `json:"selector,omitempty"`
		// All is true for an empty selector: the budget covers every pod of its namespace.
		All bool `json:"all,omitempty"`
		// AlwaysAllow has the unhealthyPodEvictionPolicy be that, and not IfHealthyBudget.
		AlwaysAllow bool `json:"alwaysAllow,omitempty"`
		// Observed is the generation that Allowed, Healthy and Desired were counted for:
		// disruptionsAllowed, currentHealthy and desiredHealthy.
		Observed int64 `json:"observed,omitempty"`
		Allowed  int32 `json:"allowed,omitempty"`
		Healthy  int32 `json:"healthy,omitempty"`
		Desired  int32 `json:"desired,omitempty"`
	}

	// Disks is what a commit tells of volumes that have to be attached.
	Disks struct {
		// Device is what nodes call a PersistentVolume that has to be attached, and Shared one
		// that may be on several nodes at once.
		Device string `json:"device,omitempty"`
		Shared bool   `json:"shared,omitempty"`
		// Volume and Host are the PersistentVolume and the node of a VolumeAttachment, and
		// Attached what its driver says.
		Volume   string `json:"volume,omitempty"`
		Host     string `json:"host,omitempty"`
		Attached bool   `json:"attached,omitempty"`
		// InUse are the devices that a node says it uses, and OutOfService its taint.
		InUse        []string `json:"inUse,omitempty"`
		OutOfService bool     `json:"outOfService,omitempty"`
	}

	// Fsync is a transaction that has reached the disk.
	Fsync struct {
		// Revision is the last in it.
		Revision int64 `json:"rv"`
		// Oldest is the oldest revision whose state can be read after it; 0 in histories that
		// do not tell.
		Oldest int64 `json:"oldest,omitempty"`
	}

	// Compact is history that can no longer be read.
	Compact struct {
		// Revision is the oldest whose state can be read.
		Revision int64 `json:"rv"`
	}

	// StoreError is a commit that the disk did not take.
	StoreError struct {
		// Kind is the disk's words.
		Kind string `json:"kind"`
	}

	// StoreOpen is the beginning of a store's life in one process, after every record's checksum was found right.
	StoreOpen struct {
		Revision int64 `json:"rv"`
		Objects  int   `json:"n"`
		Sound    bool  `json:"crc_ok"`
	}
)

// Watches.
type (
	// WatchOpen is a watch that begins, or one that joins a group of equal ones.
	WatchOpen struct {
		// Watch names the group.
		Watch    string `json:"w"`
		Resource string `json:"resource"`
		Selector string `json:"sel,omitempty"`
		// Revision is where it resumes.
		Revision int64 `json:"rv"`
		// Scope is what it selects; nil in histories that do not tell.
		Scope *Scope `json:"scope,omitempty"`
	}

	// Scope is a namespace, empty for all, and selectors in it.
	Scope struct {
		Namespace string `json:"namespace,omitempty"`
		Labels    string `json:"labels,omitempty"`
		Fields    string `json:"fields,omitempty"`
	}

	// WatchEvent is an event that all watches of a group were sent.
	WatchEvent struct {
		Watch    string `json:"w"`
		Type     string `json:"type"`
		Revision int64  `json:"rv"`
		UID      string `json:"uid"`
		// Object is a digest of the object.
		Object string `json:"obj,omitempty"`
	}

	// WatchEnd is a watch that ends, or that could not be sent something: whoever reads it notices
	// the gap, and opens it anew.
	WatchEnd struct {
		Watch string `json:"w"`
		// Code is the HTTP status code of the reason; 0 for none.
		Code int32 `json:"code,omitempty"`
	}
)

// Name implements Fact.
func (OpCall) Name() Name { return NameOpCall }

// Name implements Fact.
func (OpReturn) Name() Name { return NameOpReturn }

// Name implements Fact.
func (Consulted) Name() Name { return NameConsulted }

// Name implements Fact.
func (Commit) Name() Name { return NameCommit }

// Name implements Fact.
func (Fsync) Name() Name { return NameFsync }

// Name implements Fact.
func (Compact) Name() Name { return NameCompact }

// Name implements Fact.
func (StoreError) Name() Name { return NameStoreError }

// Name implements Fact.
func (StoreOpen) Name() Name { return NameStoreOpen }

// Name implements Fact.
func (WatchOpen) Name() Name { return NameWatchOpen }

// Name implements Fact.
func (WatchEvent) Name() Name { return NameWatchEvent }

// Name implements Fact.
func (WatchEnd) Name() Name { return NameWatchEnd }
