package customers

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/podfall/podfall/podfalltest"
)

const frogFinalizer = "pond.example.com/tidy"

// TestManagerReconciles is a customer's operator: a CRD, and a controller that creates a pod for
// each frog and removes the pod through a finalizer. When the namespace is deleted, the frog is
// finalized, its pod is stopped on its node, and the namespace goes. With envtest, which has no
// kubelet and no namespace controller, that never completes.
func TestManagerReconciles(t *testing.T) {
	t.Parallel()
	c := podfalltest.Start(t, podfalltest.Nodes(2))
	k := newReader(t, c.Config())
	installCRD(t, k)
	runManager(t, c.Config())

	pond := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "pond"}}
	frog := &Frog{ObjectMeta: metav1.ObjectMeta{Namespace: "pond", Name: "kermit"}, Spec: FrogSpec{Colour: "green"}}
	must(t, k.Create(t.Context(), pond))
	must(t, k.Create(t.Context(), frog))
	if frog.Spec.Legs != 4 {
		t.Errorf("a frog was created with %d legs, want the default 4", frog.Spec.Legs)
	}
	bad := &Frog{ObjectMeta: metav1.ObjectMeta{Namespace: "pond", Name: "flamingo"}, Spec: FrogSpec{Colour: "pink"}}
	if err := k.Create(t.Context(), bad); !apierrors.IsInvalid(err) {
		t.Errorf("a pink frog: got %v, want invalid", err)
	}

	key := client.ObjectKeyFromObject(frog)
	eventually(t, "the frog is ready", func() bool {
		must(t, k.Get(t.Context(), key, frog))
		return meta.IsStatusConditionTrue(frog.Status.Conditions, "Ready")
	})
	if !slices.Contains(frog.Finalizers, frogFinalizer) || frog.Generation != 1 {
		t.Errorf("the frog has finalizers %v and generation %d, want %s and 1", frog.Finalizers, frog.Generation, frogFinalizer)
	}

	must(t, k.Delete(t.Context(), pond))
	awaitGone(t, k, pond)
	awaitGone(t, k, frog)
	awaitGone(t, k, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "pond", Name: "frog-kermit"}})
}

// newScheme returns the scheme of a customer's program.
func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	must(t, clientscheme.AddToScheme(s))
	must(t, apiextensionsv1.AddToScheme(s))
	addFrogs(s)
	return s
}

// newReader returns a client without a cache.
func newReader(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	k, err := client.New(config, client.Options{Scheme: newScheme(t)})
	must(t, err)
	return k
}

// installCRD creates the CRD, and waits until it is established and its kind is served.
func installCRD(t *testing.T, k client.Client) {
	t.Helper()
	definition := frogDefinition()
	must(t, k.Create(t.Context(), definition))
	eventually(t, "the CRD is established", func() bool {
		must(t, k.Get(t.Context(), client.ObjectKeyFromObject(definition), definition))
		return slices.ContainsFunc(definition.Status.Conditions, func(c apiextensionsv1.CustomResourceDefinitionCondition) bool {
			return c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionTrue
		})
	})
	eventually(t, "frogs are served", func() bool { return k.List(t.Context(), &FrogList{}) == nil })
}

// runManager runs the customer's manager until the test ends.
func runManager(t *testing.T, cfg *rest.Config) {
	t.Helper()
	m, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme: newScheme(t), Metrics: metricsserver.Options{BindAddress: "0"},
		Controller:    config.Controller{SkipNameValidation: new(true)},
		LeaseDuration: new(conditionTimeout), RenewDeadline: new(conditionTimeout / 2), // long enough for a busy machine
		LeaderElection: true, LeaderElectionID: "pond", LeaderElectionNamespace: "default", LeaderElectionReleaseOnCancel: true,
	})
	must(t, err)
	must(t, ctrl.NewControllerManagedBy(m).For(&Frog{}).Owns(&corev1.Pod{}).Complete(&frogReconciler{m.GetClient()}))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the manager ended with %v", err)
		}
	})
}

// frogReconciler reconciles frogs.
type frogReconciler struct{ client.Client }

// Reconcile implements [reconcile.Reconciler].
func (k *frogReconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	frog := &Frog{}
	if err := k.Get(ctx, request.NamespacedName, frog); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: frog.Namespace, Name: "frog-" + frog.Name,
			Annotations: map[string]string{"script.podfall.io/main": "on TERM exits 0 after 50ms"},
		},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(1)), // the namespace controller retries after half of it
			Containers:                    []corev1.Container{{Name: "main", Image: "frog:" + frog.Spec.Colour}},
		},
	}
	if !frog.DeletionTimestamp.IsZero() {
		return k.finalize(ctx, frog, pod)
	}
	if controllerutil.AddFinalizer(frog, frogFinalizer) {
		return reconcile.Result{}, k.Update(ctx, frog)
	}
	found := &corev1.Pod{}
	err := k.Get(ctx, client.ObjectKeyFromObject(pod), found)
	if apierrors.IsNotFound(err) {
		if err := controllerutil.SetControllerReference(frog, pod, k.Scheme()); err != nil {
			return reconcile.Result{}, err
		}
		return reconcile.Result{}, client.IgnoreAlreadyExists(k.Create(ctx, pod))
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	ready := metav1.ConditionFalse
	if found.Status.Phase == corev1.PodRunning {
		ready = metav1.ConditionTrue
	}
	if meta.IsStatusConditionPresentAndEqual(frog.Status.Conditions, "Ready", ready) {
		return reconcile.Result{}, nil
	}
	frog.Status.Pod = pod.Name
	meta.SetStatusCondition(&frog.Status.Conditions, metav1.Condition{Type: "Ready", Status: ready, Reason: "Pod"})
	return reconcile.Result{}, k.Status().Update(ctx, frog)
}

// finalize removes the frog's finalizer once its pod is gone.
func (k *frogReconciler) finalize(ctx context.Context, frog *Frog, pod *corev1.Pod) (reconcile.Result, error) {
	switch err := k.Delete(ctx, pod); {
	case err == nil:
		return reconcile.Result{RequeueAfter: 50 * time.Millisecond}, nil
	case !apierrors.IsNotFound(err):
		return reconcile.Result{}, err
	case controllerutil.RemoveFinalizer(frog, frogFinalizer):
		return reconcile.Result{}, client.IgnoreNotFound(k.Update(ctx, frog))
	}
	return reconcile.Result{}, nil
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// awaitGone waits until an object is gone.
func awaitGone(t *testing.T, k client.Client, object client.Object) {
	t.Helper()
	eventually(t, "there is no "+object.GetName(), func() bool {
		err := k.Get(t.Context(), client.ObjectKeyFromObject(object), object)
		if err != nil && !apierrors.IsNotFound(err) {
			t.Fatal(err)
		}
		return err != nil
	})
}
