package gateway

import (
	"fmt"
	"net/http"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// review is a resource that is asked and not stored.
type review struct {
	kind       schema.GroupVersionKind
	namespaced bool
}

// reviews are the questions that the gateway answers itself: there is one user, and that
// user may do everything.
func reviews(asked schema.GroupVersionResource) (review, bool) {
	authorization, authentication := authorizationv1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion
	for gvr, is := range map[schema.GroupVersionResource]review{
		authorization.WithResource("selfsubjectaccessreviews"):  {kind: authorization.WithKind("SelfSubjectAccessReview")},
		authorization.WithResource("subjectaccessreviews"):      {kind: authorization.WithKind("SubjectAccessReview")},
		authorization.WithResource("localsubjectaccessreviews"): {kind: authorization.WithKind("LocalSubjectAccessReview"), namespaced: true},
		authorization.WithResource("selfsubjectrulesreviews"):   {kind: authorization.WithKind("SelfSubjectRulesReview")},
		authentication.WithResource("tokenreviews"):             {kind: authentication.WithKind("TokenReview")},
		authentication.WithResource("selfsubjectreviews"):       {kind: authentication.WithKind("SelfSubjectReview")},
	} {
		if gvr == asked {
			return is, true
		}
	}
	return review{}, false
}

// otherResource is a resource of which nothing is stored.
func (g *gateway) otherResource(w *response, r *http.Request, to route) error {
	if to.GroupVersionResource == corev1.SchemeGroupVersion.WithResource("bindings") {
		return g.bind(w, r, to)
	}
	if asked, ok := reviews(to.GroupVersionResource); ok {
		return g.review(w, r, to, asked)
	}
	if !known(to.Group) {
		pageNotFound(w)
		return nil
	}
	return notServed()
}

// known reports whether a group is one whose paths are all the API's, whatever follows: a
// custom one is not.
func known(group string) bool {
	return group == authorizationv1.GroupName || group == authenticationv1.GroupName ||
		slices.ContainsFunc(kinds.All(), func(k kinds.Kind) bool { return k.Group == group && k.IsServedByDefault() })
}

func (g *gateway) review(w http.ResponseWriter, r *http.Request, to route, asked review) error {
	if asked.namespaced != (to.namespace != "") || to.name != "" {
		return notServed()
	}
	if r.Method != http.MethodPost {
		return notAllowed()
	}
	as, err := negotiate(r, offers{media: []string{mediaJSON, mediaYAML, mediaProtobuf}})
	if err != nil {
		return err
	}
	question, err := decoded(r, asked.kind)
	if err != nil {
		return err
	}
	if err := g.answer(question, userOf(r)); err != nil {
		return err
	}
	question.GetObjectKind().SetGroupVersionKind(asked.kind)
	return respond(w, r, http.StatusCreated, question, as)
}

// decoded is the object in a request's body, which has to be of a kind.
func decoded(r *http.Request, kind schema.GroupVersionKind) (runtime.Object, error) {
	media, body, err := objectBody(r)
	if err != nil {
		return nil, err
	}
	var obj runtime.Object
	gvk := &schema.GroupVersionKind{}
	if media == mediaProtobuf {
		obj, err = kinds.DecodeAny(body)
		if err == nil {
			*gvk = obj.GetObjectKind().GroupVersionKind()
		}
	} else {
		scheme := kinds.Scheme()
		serializer := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: media == mediaYAML})
		wanted := kind
		obj, gvk, err = serializer.Decode(body, &wanted, nil)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v", kind.Kind, err))
	}
	if *gvk != kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", gvk.Kind, gvk.Version, kind.Kind))
	}
	return obj, nil
}

// The one user there is.
const (
	userName    = "kubernetes-admin"
	adminGroup  = "system:masters"
	insideGroup = "system:authenticated"
)

func admin() authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: userName, Groups: []string{adminGroup, insideGroup}}
}

// refuseOthers keeps whom the admin plays from everything but reviews, which say that he
// may do nothing: requests are carried out as the gateway, which may do all.
func (c *call) refuseOthers() error {
	user := userOf(c.r)
	if may(user.Username, user.Groups).Allowed {
		return nil
	}
	verb, _ := c.route.verb(c.r.Method, c.kind, c.query)
	scope := "at the cluster scope"
	if c.route.namespace != "" {
		scope = fmt.Sprintf("in the namespace %q", c.route.namespace)
	}
	//nolint:staticcheck // upstream's text
	return apierrors.NewForbidden(c.kind.GroupResource(), c.route.name, fmt.Errorf("User %q cannot %s resource %q in API group %q %s",
		user.Username, verb, c.kind.Resource, c.kind.Group, scope))
}

// userOf is who asks: the admin, or whom the admin plays.
func userOf(r *http.Request) authenticationv1.UserInfo {
	played := r.Header.Get("Impersonate-User")
	if played == "" {
		return admin()
	}
	groups := slices.Clone(r.Header.Values("Impersonate-Group"))
	if !slices.Contains(groups, insideGroup) {
		groups = append(groups, insideGroup)
	}
	return authenticationv1.UserInfo{Username: played, UID: r.Header.Get("Impersonate-Uid"), Groups: groups}
}

// answer fills in the status of a question that a user asks.
func (g *gateway) answer(question runtime.Object, user authenticationv1.UserInfo) error {
	switch q := question.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		q.Status = may(user.Username, user.Groups)
		return oneOf("SelfSubjectAccessReview", q.Spec.ResourceAttributes, q.Spec.NonResourceAttributes)
	case *authorizationv1.SubjectAccessReview:
		q.Status = may(q.Spec.User, q.Spec.Groups)
		return oneOf("SubjectAccessReview", q.Spec.ResourceAttributes, q.Spec.NonResourceAttributes)
	case *authorizationv1.LocalSubjectAccessReview:
		q.Status = may(q.Spec.User, q.Spec.Groups)
		return oneOf("LocalSubjectAccessReview", q.Spec.ResourceAttributes, q.Spec.NonResourceAttributes)
	case *authorizationv1.SelfSubjectRulesReview:
		q.Status = rules(may(user.Username, user.Groups))
	case *authenticationv1.SelfSubjectReview:
		q.Status.UserInfo = user
	case *authenticationv1.TokenReview:
		q.Status = authenticationv1.TokenReviewStatus{}
		if g.guard.Knows(q.Spec.Token) {
			q.Status.Authenticated, q.Status.User = true, admin()
		}
	}
	return nil
}

// may is what a user may do: everything, or nothing.
func may(user string, groups []string) authorizationv1.SubjectAccessReviewStatus {
	if user == userName || slices.Contains(groups, adminGroup) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	}
	return authorizationv1.SubjectAccessReviewStatus{Reason: "this cluster has one user, " + userName}
}

// rules say the same at length.
func rules(may authorizationv1.SubjectAccessReviewStatus) authorizationv1.SubjectRulesReviewStatus {
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{},
	}
	if may.Allowed {
		all := []string{"*"}
		status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{Verbs: all, APIGroups: all, Resources: all})
		status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: all, NonResourceURLs: all})
	}
	return status
}

// oneOf refuses a question about nothing, or about two things.
func oneOf(kind string, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) error {
	if (resource == nil) != (path == nil) {
		return nil
	}
	wrong := field.Invalid(field.NewPath("spec", "resourceAttributes"), path,
		"exactly one of nonResourceAttributes or resourceAttributes must be specified")
	if resource != nil {
		wrong = field.Invalid(field.NewPath("spec", "nonResourceAttributes"), path,
			"cannot be specified in combination with resourceAttributes")
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: authorizationv1.GroupName, Kind: kind}, "", field.ErrorList{wrong})
}

// bind passes a Binding on to its pod: the way in which schedulers of old wrote it.
func (g *gateway) bind(w *response, r *http.Request, to route) error {
	if to.namespace == "" || to.name != "" || r.Method != http.MethodPost {
		return notAllowed()
	}
	as, err := negotiate(r, offers{media: []string{mediaJSON, mediaYAML, mediaProtobuf}})
	if err != nil {
		return err
	}
	opts, err := createOptions(r)
	if err != nil {
		return err
	}
	obj, err := decoded(r, corev1.SchemeGroupVersion.WithKind("Binding"))
	if err != nil {
		return err
	}
	binding, ok := obj.(*corev1.Binding)
	if !ok || binding.Name == "" {
		return apierrors.NewBadRequest("metadata.name: want the name of the pod that is bound")
	}
	body, err := kinds.Encode(binding)
	if err != nil {
		return err
	}
	pods, _ := kinds.ByResource("pods")
	answer, err := g.api.WithWarn(w.warn).Do(r.Context(), podapi.RawRequest{
		Verb: proto.VerbCreate, Options: &opts, ContentType: kinds.ContentTypeProtobuf, Body: body,
		Target: podapi.Target{Kind: pods, Namespace: to.namespace, Name: binding.Name, Subresource: "binding"},
	})
	if err != nil {
		return err
	}
	return respond(w, r, answer.Code, answer.Object, as)
}
