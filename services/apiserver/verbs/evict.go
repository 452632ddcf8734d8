package verbs

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	policyv1beta1 "k8s.io/api/policy/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
	"github.com/podfall/podfall/services/apiserver/deletion"
	"github.com/podfall/podfall/services/apiserver/eviction"
	"github.com/podfall/podfall/services/apiserver/registry"
	"github.com/podfall/podfall/services/apiserver/store"
)

// budgetResource is the key of PodDisruptionBudgets in the store.
const budgetResource = "poddisruptionbudgets.policy"

// evict deletes a pod if its disruption budget allows it (API-82 to API-87). The budget, the pod's
// condition and its deletion are one commit: watchers see upstream's changes in upstream's order,
// and no crash spends a budget in vain.
func (a *API) evict(ctx context.Context, req Request) (*proto.Response, error) {
	opts, err := decodeOptions[metav1.CreateOptions](req.Envelope.GetOptions())
	if err != nil {
		return nil, err
	}
	if err := invalidOptions("CreateOptions", validation.ValidateCreateOptions(&opts)); err != nil {
		return nil, err
	}
	body, warnings, err := a.decodeEviction(ctx, req, opts)
	if err != nil {
		return nil, err
	}
	for {
		plan, err := a.planEviction(req, body)
		if err != nil {
			return nil, err
		}
		if len(body.DryRun) > 0 {
			if plan.refusal != nil {
				return nil, plan.refusal
			}
			return successResponse(http.StatusCreated, nil, warnings)
		}
		err = a.commitEviction(ctx, req, plan)
		if conflict, lost := errors.AsType[*store.ConflictError](err); lost {
			if plan.unguarded != "" && requiredVersion(body) == nil && conflict.Have != nil && conflict.Have.Key == req.key() {
				return nil, eviction.StillProcessing(plan.unguarded) // API-85
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		return successResponse(http.StatusCreated, nil, warnings)
	}
}

// evictionPlan holds the writes of an eviction.
type evictionPlan struct {
	// budget is the write that spends a disruption, if the eviction spends one.
	budget []store.Write
	// pod has the writes that mark and perhaps remove the pod.
	pod []store.Write
	// refusal says why the pod is not deleted although its budget allows it. At that point upstream
	// has written the budget.
	refusal error
	// unguarded is Decision.Unguarded.
	unguarded string
}

// planEviction decides on the present state of the store.
func (a *API) planEviction(req Request, opts metav1.DeleteOptions) (evictionPlan, error) {
	snapshot := a.Store.Snapshot()
	now := a.Clock.Now() // of what is in it, at the earliest
	old := snapshot.Get(req.key())
	if old == nil {
		return evictionPlan{}, req.notFound()
	}
	pod, ok := old.Object.(*corev1.Pod)
	if !ok {
		return evictionPlan{}, apierrors.NewInternalError(fmt.Errorf("%s is a %T", old.Key, old.Object))
	}
	guards, revisions := budgetsIn(snapshot, req.Namespace)
	decision := eviction.Decide(pod, guards, now)
	if decision.Err != nil {
		return evictionPlan{}, decision.Err
	}
	plan := evictionPlan{unguarded: decision.Unguarded}
	if spent := decision.Budget; spent != nil {
		key := store.Key{Resource: budgetResource, Namespace: spent.Namespace, Name: spent.Name}
		plan.budget = []store.Write{{Key: key, Expect: revisions[spent.Name], Object: spent}}
	}
	deleted := deletion.Decide(decision.Pod, a.policy(req.Kind), opts, now)
	if deleted.Outcome == deletion.Refused {
		plan.refusal = deleted.Err
		return plan, nil
	}
	plan.pod = []store.Write{{Key: old.Key, Expect: old.Revision, Object: decision.Pod}}
	if deleted.Outcome != deletion.Unchanged {
		behind := *old
		behind.Revision = store.Previous
		plan.pod = append(plan.pod, decisionWrites(deleted, &behind)...)
	}
	return plan, nil
}

// commitEviction commits a plan, and returns its refusal.
func (a *API) commitEviction(ctx context.Context, req Request, plan evictionPlan) error {
	all := append(plan.budget, plan.pod...)
	if len(all) == 0 {
		return plan.refusal
	}
	if _, err := a.commit(ctx, req, all...); err != nil {
		return err
	}
	return plan.refusal
}

func budgetsIn(snapshot *store.Snapshot, namespace string) ([]*policyv1.PodDisruptionBudget, map[string]int64) {
	var found []*policyv1.PodDisruptionBudget
	revisions := map[string]int64{}
	for record := range snapshot.Scan(budgetResource, namespace, "") {
		if budget, ok := record.Object.(*policyv1.PodDisruptionBudget); ok {
			found, revisions[budget.Name] = append(found, budget), record.Revision
		}
	}
	return found, revisions
}

// decodeEviction returns the delete options in the Eviction of a request.
func (a *API) decodeEviction(ctx context.Context, req Request, opts metav1.CreateOptions) (metav1.DeleteOptions, []string, error) {
	kind := evictions()
	obj, warnings, err := registry.DecodeBody(kind, req.Envelope.GetContentType(), req.Envelope.GetBody(), opts.FieldValidation)
	if err != nil {
		return metav1.DeleteOptions{}, nil, err
	}
	if err := registry.MatchRequest(kind, obj, req.Namespace, ""); err != nil {
		return metav1.DeleteOptions{}, nil, err
	}
	obj, more, err := callHooksOnBody(ctx, a, req, obj, len(opts.DryRun) > 0)
	if err != nil {
		return metav1.DeleteOptions{}, nil, err
	}
	if obj.GetName() != req.Name {
		return metav1.DeleteOptions{}, nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	warnings = append(warnings, more...)
	wanted := evictionDeleteOptions(obj)
	if len(wanted.DryRun) == 0 {
		wanted.DryRun = opts.DryRun
	}
	return wanted, warnings, nil
}

func evictions() kinds.Kind {
	return kinds.Kind{GroupVersionKind: policyv1.SchemeGroupVersion.WithKind("Eviction"), Resource: "evictions", Namespaced: true}
}

// evictionDeleteOptions returns the delete options of an Eviction.
func evictionDeleteOptions(obj kinds.Object) (wanted metav1.DeleteOptions) {
	var deleteOptions *metav1.DeleteOptions
	switch body := obj.(type) {
	case *policyv1.Eviction:
		deleteOptions = body.DeleteOptions
	case *policyv1beta1.Eviction:
		deleteOptions = body.DeleteOptions
	}
	if deleteOptions != nil {
		wanted = *deleteOptions
	}
	return wanted
}

// IsEviction reports whether a request asks for an eviction.
func IsEviction(req Request) bool { return req.Verb == proto.VerbCreate && req.Subresource == evicts }

// DeleteOptionsOf returns the delete options of a delete or an eviction, if they can be decoded.
func DeleteOptionsOf(req Request) (metav1.DeleteOptions, error) {
	if !IsEviction(req) {
		return decodeOptions[metav1.DeleteOptions](req.Envelope.GetOptions())
	}
	obj, _, err := registry.DecodeBody(evictions(), req.Envelope.GetContentType(), req.Envelope.GetBody(), "")
	if err != nil {
		return metav1.DeleteOptions{}, err
	}
	return evictionDeleteOptions(obj), nil
}

// requiredVersion returns the resourceVersion that a delete requires; nil for any.
func requiredVersion(opts metav1.DeleteOptions) *string {
	if opts.Preconditions == nil {
		return nil
	}
	return opts.Preconditions.ResourceVersion
}
