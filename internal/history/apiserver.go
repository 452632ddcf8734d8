package history

import "time"

// Requests. The apiserver records those that may change something. A call without a return has an unknown outcome.
type (
	// OpCall is a request as it arrived. The event's cause is the operation's id.
	OpCall struct {
		// Identity is the requester, and Boot its incarnation.
		Identity string `json:"who"`
		Boot     string `json:"from,omitempty"`
		Verb     string `json:"verb"`
		// Resource is the group resource: deployments.apps.
		Resource string `json:"resource"`
		// Key is namespace/name, or name.
		Key         string `json:"key"`
		Subresource string `json:"subresource,omitempty"`
		// PreUID and PreRevision are the preconditions of a delete.
		PreUID      string `json:"pre.uid,omitempty"`
		PreRevision string `json:"pre.rv,omitempty"`
		// Grace is the grace period in seconds that a delete, a deletecollection or an eviction
		// asks for.
		Grace *int64 `json:"grace,omitempty"`
		// Body is a digest of the body.
		Body string `json:"body,omitempty"`
		// DryRun requests change nothing.
		DryRun bool `json:"dry,omitempty"`
		// TimeLeft is the wall time until the request's deadline, in milliseconds; nil without a
		// deadline.
		TimeLeft *int64 `json:"left,omitempty"`
	}

	// OpReturn is the answer to a request.
	OpReturn struct {
		// Code is the HTTP status code.
		Code int32 `json:"code"`
		// Revision is the resource version of the returned object; 0 without one.
		Revision int64 `json:"rv,omitempty"`
		// Object is a digest of the returned object.
		Object string `json:"obj,omitempty"`
		// BodyUID and BodyRevision are the uid and resourceVersion in the body of an update; empty
		// if the body has none.
		BodyUID      string `json:"meant.uid,omitempty"`
		BodyRevision string `json:"meant.rv,omitempty"`
		// BodyName is the name in the body of a create; empty if the apiserver generates the name.
		BodyName string `json:"meant.name,omitempty"`
		// Warnings counts the warnings in the answer.
		Warnings int `json:"warnings,omitempty"`
	}
)

// Webhooks.
type (
	// WebhookCall is a call of an admission webhook about an object, with its answer. The event's
	// cause is the operation.
	WebhookCall struct {
		// Hook is configuration/webhook.
		Hook string `json:"hook"`
		// Resource is the group resource: deployments.apps.
		Resource string `json:"resource"`
		// Key is namespace/name, or name.
		Key    string     `json:"key"`
		Answer HookAnswer `json:"answer"`
		// Ignore is set if the webhook's failurePolicy ignores failures.
		Ignore bool `json:"ignore,omitempty"`
	}

	// HookAnswer is the outcome of a webhook call.
	HookAnswer string
)

// The answers of webhooks.
const (
	HookAllowed HookAnswer = "allowed"
	HookDenied  HookAnswer = "denied"
	// HookFailed means that the webhook was not reached or gave an invalid answer.
	HookFailed HookAnswer = "failed"
)

// The store.
type (
	// Commit is a change of an object, written in the transaction that made it. The event's cause
	// is the operation.
	Commit struct {
		Revision int64 `json:"rv"`
		// Resource is the group resource.
		Resource string `json:"resource"`
		// Key is namespace/name, or name.
		Key string `json:"key"`
		UID string `json:"uid"`
		// Op is ADDED, MODIFIED or DELETED.
		Op string `json:"op"`
		// Previous is the revision that was replaced; 0 for a creation.
		Previous int64 `json:"prev_rv,omitempty"`
		// Object is a digest of the stored object; empty for a deletion.
		Object string `json:"obj,omitempty"`
		// Deadline is the deletionTimestamp.
		Deadline *time.Time `json:"delTs,omitempty"`
		// Grace is the deletionGracePeriodSeconds.
		Grace *int64 `json:"delGrace,omitempty"`
		// Node and Phase are set for pods.
		Node  string `json:"node,omitempty"`
		Phase string `json:"phase,omitempty"`
		Content
	}

	// Content holds the fields of the committed object that checkers use.
	Content struct {
		Finalizers []string `json:"finalizers,omitempty"`
		// Created is the creationTimestamp in seconds of Unix time; 0 without one.
		Created    int64             `json:"created,omitempty"`
		Generation int64             `json:"gen,omitempty"`
		Labels     map[string]string `json:"labels,omitempty"`
		// Owner is the uid of the controlling owner.
		Owner string `json:"owner,omitempty"`
		// SpecGrace is a pod's terminationGracePeriodSeconds.
		SpecGrace *int64 `json:"ownGrace,omitempty"`
		// Ready is the Ready condition of a pod or a node.
		Ready bool `json:"ready,omitempty"`
		PodSpec
		Workload
		// NoExecuteTaints are a node's NoExecute taints: key=value.
		NoExecuteTaints []string `json:"evicting,omitempty"`
		Blocking
		Attachments
	}

	// PodSpec holds fields of a committed pod's spec.
	PodSpec struct {
		// Tolerations are a pod's tolerations of NoExecute taints: key=value:seconds. An empty key
		// tolerates all taints, no value any value, and no seconds means for ever.
		Tolerations []string `json:"tolerates,omitempty"`
		// Sidecars are a pod's restartable init containers in the order of the spec. Regular are
		// the containers that the sidecars must outlive. Both are empty for pods without sidecars.
		Sidecars []string `json:"sidecars,omitempty"`
		Regular  []string `json:"regular,omitempty"`
		// RestartsAll is set for a pod with a restart rule of the action RestartAllContainers. Its
		// init containers may run again.
		RestartsAll bool `json:"restartsAll,omitempty"`
	}

	// Workload holds fields of committed objects whose controllers create pods.
	Workload struct {
		// Replicas is the desired number of pods of a ReplicaSet or StatefulSet. InOrder is set for
		// a StatefulSet that creates pods one after the other.
		Replicas *int32 `json:"replicas,omitempty"`
		InOrder  bool   `json:"inOrder,omitempty"`
		// Counted is how many finished pods a Job has counted as succeeded, failed or uncounted
		// terminated.
		Counted *int32 `json:"counted,omitempty"`
	}

	// Blocking holds what a committed object keeps from being deleted or evicted.
	Blocking struct {
		// Blocks are the uids of owners whose foreground deletion waits for the object, in the
		// order of its ownerReferences.
		Blocks []string `json:"blocks,omitempty"`
		// Budget is set for a PodDisruptionBudget.
		Budget *Budget `json:"budget,omitempty"`
	}

	// Budget is which pods a PodDisruptionBudget selects, and how many of them may be evicted.
	Budget struct {
		// Selector is the label selector. An empty selector matches no pod, or every pod if All is set.
		Selector string `json:"selector,omitempty"`
		// All is set for an empty selector: the budget covers every pod of its namespace.
		All bool `json:"all,omitempty"`
		// AlwaysAllow is set if unhealthyPodEvictionPolicy is AlwaysAllow, not IfHealthyBudget.
		AlwaysAllow bool `json:"alwaysAllow,omitempty"`
		// Observed is the observedGeneration. Allowed, Healthy and Desired are disruptionsAllowed,
		// currentHealthy and desiredHealthy, computed for that generation.
		Observed int64 `json:"observed,omitempty"`
		Allowed  int32 `json:"allowed,omitempty"`
		Healthy  int32 `json:"healthy,omitempty"`
		Desired  int32 `json:"desired,omitempty"`
	}

	// Attachments holds fields of committed objects that concern attachable volumes.
	Attachments struct {
		// Device is the name that nodes use for an attachable PersistentVolume. Shared is set if
		// the volume may be on several nodes at once.
		Device string `json:"device,omitempty"`
		Shared bool   `json:"shared,omitempty"`
		// Volume and Host are the PersistentVolume and the node of a VolumeAttachment. Attached is
		// the driver's report.
		Volume   string `json:"volume,omitempty"`
		Host     string `json:"host,omitempty"`
		Attached bool   `json:"attached,omitempty"`
		// InUse are the devices that a node reports as in use. OutOfService is set if the node has
		// that taint.
		InUse        []string `json:"inUse,omitempty"`
		OutOfService bool     `json:"outOfService,omitempty"`
	}

	// Fsync is a transaction that has reached the disk.
	Fsync struct {
		// Revision is the last revision of the transaction.
		Revision int64 `json:"rv"`
		// Oldest is the oldest revision that can be read afterwards; 0 in histories that do not
		// record it.
		Oldest int64 `json:"oldest,omitempty"`
	}

	// Compact is a compaction of the store's history.
	Compact struct {
		// Revision is the oldest revision that can still be read.
		Revision int64 `json:"rv"`
	}

	// StoreError is a commit that the disk refused.
	StoreError struct {
		// Kind is the disk's error text.
		Kind string `json:"kind"`
	}

	// StoreOpen is a process opening the store, after it has verified every record's checksum.
	StoreOpen struct {
		Revision    int64 `json:"rv"`
		Objects     int   `json:"n"`
		ChecksumsOK bool  `json:"crc_ok"`
	}
)

// Watches.
type (
	// WatchOpen is a watch that begins or joins a watch group.
	WatchOpen struct {
		// Watch names the watch group.
		Watch    string `json:"w"`
		Resource string `json:"resource"`
		Selector string `json:"sel,omitempty"`
		// Revision is where the watch resumes.
		Revision int64 `json:"rv"`
		// Scope is what the watch selects; nil in histories that do not record it.
		Scope *Scope `json:"scope,omitempty"`
	}

	// Scope is a namespace, empty for all, with label and field selectors.
	Scope struct {
		Namespace string `json:"namespace,omitempty"`
		Labels    string `json:"labels,omitempty"`
		Fields    string `json:"fields,omitempty"`
	}

	// WatchEvent is an event sent to all watches of a group.
	WatchEvent struct {
		Watch    string `json:"w"`
		Type     string `json:"type"`
		Revision int64  `json:"rv"`
		UID      string `json:"uid"`
		// Object is a digest of the object.
		Object string `json:"obj,omitempty"`
	}

	// WatchEnd is a watch that ends, or a message that could not be sent. The reader notices the
	// gap and reopens the watch.
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
func (WebhookCall) Name() Name { return NameWebhookCall }

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
