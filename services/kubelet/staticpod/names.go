package staticpod

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// NameQueue lets one static pod of each name run at a time, and the others in the order in which
// they came (KBL-22). Its zero value is empty.
type NameQueue struct {
	running map[string]types.UID
	waiting map[string][]types.UID
}

// Acquire reports whether the static pod may run now under the name. If not, it gets a place in the
// queue. Wanted reports whether a pod should run at all; pods that should not lose their places.
func (t *NameQueue) Acquire(name string, uid types.UID, wanted func(types.UID) bool) bool {
	if !wanted(uid) {
		return false
	}
	if t.running == nil {
		t.running, t.waiting = map[string]types.UID{}, map[string][]types.UID{}
	}
	if running, taken := t.running[name]; taken {
		if running != uid && !slices.Contains(t.waiting[name], uid) {
			t.waiting[name] = append(t.waiting[name], uid)
		}
		return running == uid
	}
	queue := slices.DeleteFunc(t.waiting[name], func(waiting types.UID) bool { return !wanted(waiting) })
	if len(queue) > 0 && queue[0] != uid {
		if !slices.Contains(queue, uid) {
			queue = append(queue, uid)
		}
		t.waiting[name] = queue
		return false
	}
	delete(t.waiting, name)
	if len(queue) > 1 {
		t.waiting[name] = queue[1:]
	}
	t.running[name] = uid
	return true
}

// Release frees the name of a pod that has ended and been cleaned up.
func (t *NameQueue) Release(uid types.UID) {
	for name, running := range t.running {
		if running == uid {
			delete(t.running, name)
		}
	}
}
