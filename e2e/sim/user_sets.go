package sim

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
)

// What users do with sets whose pods have names that nobody knows before.
const (
	CreateDaemons What = "create daemonset"
	// DeleteOneOf deletes the pod of a set that is the Count-th by name, as far as there are
	// so many.
	DeleteOneOf What = "delete pod of"
)

func daemonsFor(deed Deed) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: deed.Name},
		Spec:       appsv1.DaemonSetSpec{Selector: selector(deed.Name), Template: templateFor(deed)},
	}
}

// doToOne asks which pods a set has, and does to one of them what a deed says.
func (u *user) doToOne(now time.Time, out Out, deed Deed, then Then) {
	pods := podapi.Target{Kind: kindOfResource("pods"), Namespace: namespace}
	list := Ask{Verb: proto.VerbList, Target: pods, Options: &metav1.ListOptions{LabelSelector: "app=" + deed.Name}}
	u.ask(now, out, list, func(now time.Time, got Got, out Out) {
		found, _, err := itemsOf(got)
		if got.Err != nil || err != nil || len(found) == 0 {
			then(now, got, out)
			return
		}
		pods.Name = found[int(deed.Count)%len(found)].GetName()
		u.ask(now, out, Ask{Verb: proto.VerbDelete, Target: pods, Options: &metav1.DeleteOptions{GracePeriodSeconds: deed.Grace}}, then)
	})
}
