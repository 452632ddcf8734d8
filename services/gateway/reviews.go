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

// review is an access or token review: it is answered and not stored.
type review struct {
	kind       schema.GroupVersionKind
	namespaced bool
}

// findReview returns the review of a resource. The cluster has one user, and that user may do
// everything.
func findReview(resource schema.GroupVersionResource) (review, bool) {
	authorization, authentication := authorizationv1.SchemeGroupVersion, authenticationv1.SchemeGroupVersion
	for gvr, found := range map[schema.GroupVersionResource]review{
		authorization.WithResource("selfsubjectaccessreviews"):  {kind: authorization.WithKind("SelfSubjectAccessReview")},
		authorization.WithResource("subjectaccessreviews"):      {kind: authorization.WithKind("SubjectAccessReview")},
		authorization.WithResource("localsubjectaccessreviews"): {kind: authorization.WithKind("LocalSubjectAccessReview"), namespaced: true},
		authorization.WithResource("selfsubjectrulesreviews"):   {kind: authorization.WithKind("SelfSubjectRulesReview")},
		authentication.WithResource("tokenreviews"):             {kind: authentication.WithKind("TokenReview")},
		authentication.WithResource("selfsubjectreviews"):       {kind: authentication.WithKind("SelfSubjectReview")},
	} {
		if gvr == resource {
			return found, true
		}
	}
	return review{}, false
}

// serveUnstored serves resources that are not stored.
func (g *gateway) serveUnstored(w *response, r *http.Request, route route) error {
	if route.GroupVersionResource == corev1.SchemeGroupVersion.WithResource("bindings") {
		return g.createBinding(w, r, route)
	}
	if review, ok := findReview(route.GroupVersionResource); ok {
		return g.serveReview(w, r, route, review)
	}
	if !isBuiltInGroup(route.Group) {
		pageNotFound(w)
		return nil
	}
	return notServed()
}

// isBuiltInGroup reports whether all paths of a group belong to the API. Those of a custom group
// may not.
func isBuiltInGroup(group string) bool {
	return group == authorizationv1.GroupName || group == authenticationv1.GroupName ||
		slices.ContainsFunc(kinds.All(), func(k kinds.Kind) bool { return k.Group == group && k.IsServedByDefault() })
}

func (g *gateway) serveReview(w http.ResponseWriter, r *http.Request, route route, wanted review) error {
	if wanted.namespaced != (route.namespace != "") || route.name != "" {
		return notServed()
	}
	if r.Method != http.MethodPost {
		return notAllowed()
	}
	format, err := negotiate(r, offers{media: []string{mediaJSON, mediaYAML, mediaProtobuf}})
	if err != nil {
		return err
	}
	question, err := decodeBody(r, wanted.kind)
	if err != nil {
		return err
	}
	if err := g.answerReview(question, requestUser(r)); err != nil {
		return err
	}
	question.GetObjectKind().SetGroupVersionKind(wanted.kind)
	return respond(w, r, http.StatusCreated, question, format)
}

// decodeBody decodes a request's body, which must be of a kind.
func decodeBody(r *http.Request, kind schema.GroupVersionKind) (runtime.Object, error) {
	media, body, err := readObjectBody(r)
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
		defaultKind := kind
		obj, gvk, err = serializer.Decode(body, &defaultKind, nil)
	}
	if err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the object provided is unrecognized (must be of type %s): %v", kind.Kind, err))
	}
	if *gvk != kind {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s", gvk.Kind, gvk.Version, kind.Kind))
	}
	return obj, nil
}

// The cluster's only user and its groups.
const (
	userName    = "kubernetes-admin"
	adminGroup  = "system:masters"
	insideGroup = "system:authenticated"
)

func admin() authenticationv1.UserInfo {
	return authenticationv1.UserInfo{Username: userName, Groups: []string{adminGroup, insideGroup}}
}

// rejectImpersonation refuses impersonated users everything except access reviews, which say that
// they may do nothing. Requests are carried out as the gateway, which may do everything.
func (c *call) rejectImpersonation() error {
	user := requestUser(c.r)
	if authorize(user.Username, user.Groups).Allowed {
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

// requestUser is the request's user: the admin, or the user that the admin impersonates.
func requestUser(r *http.Request) authenticationv1.UserInfo {
	impersonated := r.Header.Get("Impersonate-User")
	if impersonated == "" {
		return admin()
	}
	groups := slices.Clone(r.Header.Values("Impersonate-Group"))
	if !slices.Contains(groups, insideGroup) {
		groups = append(groups, insideGroup)
	}
	return authenticationv1.UserInfo{Username: impersonated, UID: r.Header.Get("Impersonate-Uid"), Groups: groups}
}

// answerReview sets a review's status.
func (g *gateway) answerReview(question runtime.Object, user authenticationv1.UserInfo) error {
	switch q := question.(type) {
	case *authorizationv1.SelfSubjectAccessReview:
		q.Status = authorize(user.Username, user.Groups)
		return requireOneAttribute("SelfSubjectAccessReview", q.Spec.ResourceAttributes, q.Spec.NonResourceAttributes)
	case *authorizationv1.SubjectAccessReview:
		q.Status = authorize(q.Spec.User, q.Spec.Groups)
		return requireOneAttribute("SubjectAccessReview", q.Spec.ResourceAttributes, q.Spec.NonResourceAttributes)
	case *authorizationv1.LocalSubjectAccessReview:
		q.Status = authorize(q.Spec.User, q.Spec.Groups)
		return requireOneAttribute("LocalSubjectAccessReview", q.Spec.ResourceAttributes, q.Spec.NonResourceAttributes)
	case *authorizationv1.SelfSubjectRulesReview:
		q.Status = rulesFor(authorize(user.Username, user.Groups))
	case *authenticationv1.SelfSubjectReview:
		q.Status.UserInfo = user
	case *authenticationv1.TokenReview:
		q.Status = authenticationv1.TokenReviewStatus{}
		if g.guard.IsToken(q.Spec.Token) {
			q.Status.Authenticated, q.Status.User = true, admin()
		}
	}
	return nil
}

// authorize returns what a user may do: everything or nothing.
func authorize(user string, groups []string) authorizationv1.SubjectAccessReviewStatus {
	if user == userName || slices.Contains(groups, adminGroup) {
		return authorizationv1.SubjectAccessReviewStatus{Allowed: true}
	}
	return authorizationv1.SubjectAccessReviewStatus{Reason: "this cluster has one user, " + userName}
}

// rulesFor returns the same as rules.
func rulesFor(may authorizationv1.SubjectAccessReviewStatus) authorizationv1.SubjectRulesReviewStatus {
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

// requireOneAttribute refuses a review of nothing, or of two things.
func requireOneAttribute(kind string, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) error {
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

// createBinding passes a Binding on to its pod: older schedulers create it as a resource of its
// own.
func (g *gateway) createBinding(w *response, r *http.Request, route route) error {
	if route.namespace == "" || route.name != "" || r.Method != http.MethodPost {
		return notAllowed()
	}
	format, err := negotiate(r, offers{media: []string{mediaJSON, mediaYAML, mediaProtobuf}})
	if err != nil {
		return err
	}
	opts, err := createOptions(r)
	if err != nil {
		return err
	}
	obj, err := decodeBody(r, corev1.SchemeGroupVersion.WithKind("Binding"))
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
		Target: podapi.Target{Kind: pods, Namespace: route.namespace, Name: binding.Name, Subresource: "binding"},
	})
	if err != nil {
		return err
	}
	return respond(w, r, answer.Code, answer.Object, format)
}
