package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestBadInput has upstream's code, reason and words for everything that a client can get
// wrong before an object is even looked at.
func TestBadInput(t *testing.T) {
	r := newRig(t)
	r.made("POST "+pods, podJSON("web-0"))
	odd := strings.Replace(podJSON("odd"), `"spec":{`, `"spec":{"colour":"red",`, 1)
	for name, c := range map[string]struct {
		ask, body string
		headers   []string
		code      int
		reason    metav1.StatusReason
		message   string
	}{
		"invalid JSON": {
			"POST " + pods, `{"apiVersion":"v1","kind":"Pod",`, nil, 400, "BadRequest",
			"couldn't get version/kind; json parse error: unexpected end of JSON input",
		},
		"invalid YAML": {
			"POST " + pods, "a: b: c",
			[]string{"Content-Type: application/yaml"},
			400, "BadRequest",
			"mapping values are not allowed in this context",
		},
		"invalid protobuf": {
			"POST " + pods, "k8s\x00rubbish",
			[]string{"Content-Type: application/vnd.kubernetes.protobuf"},
			400, "BadRequest",
			"the object provided is unrecognized (must be of type Pod)",
		},
		"another kind": {
			"POST " + pods, `{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"}}`, nil, 400, "BadRequest",
			`Service in version "v1" cannot be handled as a Pod`,
		},
		"an unknown field, strictly": {
			"POST " + pods + "?fieldValidation=Strict", odd, nil, 400, "BadRequest",
			`Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.colour"`,
		},
		"a duplicate field in YAML, strictly": {
			"POST " + pods + "?fieldValidation=Strict", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec:\n  containers: [{name: a, image: b}]\n  nodeName: a\n  nodeName: b\n",
			[]string{"Content-Type: application/yaml"},
			400, "BadRequest", `key "nodeName" already set in map`,
		},
		"unknown field validation": {
			"POST " + pods + "?fieldValidation=Maybe", podJSON("x"), nil, 422, "Invalid",
			`fieldValidation: Unsupported value: "Maybe": supported values: "", "Ignore", "Strict", "Warn"`,
		},
		"unknown dry run": {
			"POST " + pods + "?dryRun=Some", podJSON("x"), nil, 422, "Invalid", `dryRun: Unsupported value: ["Some"]: supported values: "All"`,
		},
		"a body of more than 3 MiB": {
			"POST " + pods, strings.Repeat(" ", 3<<20+1), nil, 413, "RequestEntityTooLarge",
			"Request entity too large: limit is 3145728",
		},
		"an unknown content type": {
			"POST " + pods, "x",
			[]string{"Content-Type: text/plain"},
			415, "UnsupportedMediaType",
			"the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf",
		},
		"a patch without a type": {
			"PATCH " + pods + "/web-0", "{}", nil, 415, "UnsupportedMediaType",
			"the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/strategic-merge-patch+json",
		},
		"a form": {
			"POST " + pods, "a=b", []string{"Content-Type: application/x-www-form-urlencoded"}, 415, "UnsupportedMediaType", "unknown format",
		},
		"nothing acceptable": {
			"GET " + pods, "",
			[]string{"Accept: text/html"},
			406, "NotAcceptable",
			"only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf",
		},
		"a Table in protobuf only": {
			"GET " + pods, "", []string{"Accept: application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io"}, 406, "NotAcceptable", "only the following media types",
		},
		"a watch in YAML": {
			"GET " + pods + "?watch=1", "",
			[]string{"Accept: application/yaml;as=Table;v=v1;g=meta.k8s.io"},
			406, "NotAcceptable",
			"only the following media types are accepted: application/json, application/vnd.kubernetes.protobuf",
		},
		"a bad label selector": {
			"GET " + pods + "?labelSelector=a%3Db%3Dc", "", nil, 400, "BadRequest", "found '='",
		},
		"a bad field selector": {
			"GET " + pods + "?fieldSelector=a", "", nil, 400, "BadRequest", "invalid selector: 'a'; can't understand 'a'",
		},
		"a field that cannot be selected by": {
			"GET " + pods + "?fieldSelector=spec.colour%3Dred", "", nil, 400, "BadRequest", "field label not supported: spec.colour",
		},
		"a bad label selector of a watch": {
			"GET " + pods + "?watch=1&labelSelector=a%3Db%3Dc", "", nil, 400, "BadRequest", "found '='",
		},
		"a bad continue token": {
			"GET " + pods + "?continue=rubbish", "", nil, 400, "BadRequest", "continue key is not valid",
		},
		"a bad limit": {
			"GET " + pods + "?limit=many", "", nil, 400, "BadRequest", `parsing "many": invalid syntax`,
		},
		"a bad timeout": {
			"GET " + pods + "?timeout=soon", "", nil, 400, "BadRequest", `invalid timeout specified in the request URL - time: invalid duration "soon"`,
		},
		"a bad resourceVersion": {
			"GET " + pods + "?resourceVersion=new", "", nil, 400, "BadRequest", "invalid resource version",
		},
		"a match without a resourceVersion": {
			"GET " + pods + "?resourceVersionMatch=Exact", "", nil, 422, "Invalid", "resourceVersionMatch is forbidden unless resourceVersion is provided",
		},
		"a bad includeObject": {
			"GET " + pods + "?includeObject=Some", "",
			[]string{"Accept: application/json;as=Table;v=v1;g=meta.k8s.io"},
			400, "BadRequest",
			`unrecognized includeObject value: "Some"`,
		},
		"an unknown resource": {
			"GET /api/v1/colours", "", nil, 404, "NotFound", "the server could not find the requested resource",
		},
		"an unknown version": {
			"GET /apis/apps/v9/deployments", "", nil, 404, "NotFound", `"message":"the server could not find the requested resource"`,
		},
		"a version of old": {
			"GET /apis/apps/v1beta1/deployments", "", nil, 404, "NotFound", `"message":"the server could not find the requested resource"`,
		},
		"a group of old": {
			"POST /apis/extensions/v1beta1/namespaces/default/deployments", "{}", nil, 404, "", "404 page not found",
		},
		"an unknown group": {
			"GET /apis/colours.example/v1/reds", "", nil, 404, "", "404 page not found",
		},
		"metrics of pods": {
			"GET /apis/metrics.k8s.io/v1beta1/nodes", "", nil, 404, "", "404 page not found",
		},
		"a namespace of what has none": {
			"GET /api/v1/namespaces/default/nodes", "", nil, 404, "NotFound", "the server could not find the requested resource",
		},
		"an unknown subresource": {
			"GET " + pods + "/web-0/colour", "", nil, 404, "NotFound", `"message":"the server could not find the requested resource"`,
		},
		"an object that is not there": {
			"GET " + pods + "/web-1", "", nil, 404, "NotFound", `pods "web-1" not found`,
		},
		"create under a name": {
			"POST " + pods + "/web-0", podJSON("web-0"), nil, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource",
		},
		"delete everywhere": {
			"DELETE /api/v1/pods", "", nil, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource",
		},
		"an unknown method": {
			"TRACE " + pods, "", nil, 405, "MethodNotAllowed", "the server does not allow this method on the requested resource",
		},
		"DeleteOptions of another kind": {
			"DELETE " + pods + "/web-0", podJSON("web-0"), nil, 400, "BadRequest", `no kind "Pod" is registered for version "v1" in scheme`,
		},
		"a negative grace": {
			"DELETE " + pods + "/web-0", `{"gracePeriodSeconds":-5,"dryRun":["Some"]}`, nil, 422, "Invalid", `supported values: "All"`,
		},
		"no token": {
			"GET " + pods, "", []string{"Authorization: "}, 401, "Unauthorized", "Unauthorized",
		},
		"a wrong token": {
			"GET " + pods, "", []string{"Authorization: Bearer open-sesamE"}, 401, "Unauthorized", "Unauthorized",
		},
		"a password": {
			"GET " + pods, "", []string{"Authorization: Basic b3Blbi1zZXNhbWU6"}, 401, "Unauthorized", "Unauthorized",
		},
		"a foreign Host": {
			"GET /healthz", "", []string{"Host: podfall.example"}, 403, "Forbidden", `Host "podfall.example" is not this cluster's`,
		},
		"a browser's page": {
			"GET " + pods, "", []string{"Origin: https://evil.example"}, 403, "Forbidden", "a browser's page",
		},
		"a browser's page that writes": {
			"DELETE " + pods + "/web-0", "", []string{"Origin: https://evil.example", "Sec-Fetch-Site: cross-site"}, 403, "Forbidden", "another origin",
		},
		"a browser's image": {
			"GET /api/v1/namespaces", "", []string{"Sec-Fetch-Site: cross-site"}, 403, "Forbidden", "browser's page",
		},
		"a review of nothing": {
			"POST /apis/authorization.k8s.io/v1/selfsubjectaccessreviews", `{"spec":{}}`, nil, 422, "Invalid", "exactly one of nonResourceAttributes or resourceAttributes must be specified",
		},
		"a negative tail": {
			"GET " + pods + "/web-0/log?tailLines=-1", "", nil, 422, "Invalid", "tailLines: Invalid value: -1: must be greater than or equal to 0",
		},
		"logs of another container": {
			"GET " + pods + "/web-0/log?container=db", "", nil, 400, "BadRequest", "container db is not valid for pod web-0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := &rig{t: t, url: r.url, http: r.http}
			resp, data := r.ask(c.ask, c.body, c.headers...)
			if resp.StatusCode != c.code || !strings.Contains(string(data), quotedOnce(c.message)) && !strings.Contains(string(data), c.message) {
				t.Fatalf("%s: %d %s, want %d with %q", c.ask, resp.StatusCode, data, c.code, c.message)
			}
			if c.reason == "" {
				return
			}
			if status := statusIn(t, data); status.Reason != c.reason || int(status.Code) != c.code || status.Status != metav1.StatusFailure {
				t.Errorf("%s: %+v, want the reason %s", c.ask, status, c.reason)
			}
		})
	}
	if after := r.made("GET "+pods, ""); strings.Count(string(after), `"uid"`) != 1 || strings.Contains(string(after), "deletionTimestamp") {
		t.Errorf("something of all that was refused had an effect: %s", after)
	}
}

func quotedOnce(text string) string { return strings.ReplaceAll(text, `"`, `\"`) }

// TestFieldValidation warns of an unknown field unless it is told not to.
func TestFieldValidation(t *testing.T) {
	r := newRig(t)
	for mode, want := range map[string]string{"": `299 - "unknown field \"spec.colour\""`, "Warn": `299 - "unknown field \"spec.colour\""`, "Ignore": ""} {
		odd := strings.Replace(podJSON("odd"), `"spec":{`, `"spec":{"colour":"red",`, 1)
		resp, data := r.ask("POST "+pods+"?dryRun=All&fieldValidation="+mode, odd)
		if got := resp.Header.Get("Warning"); resp.StatusCode != http.StatusCreated || got != want {
			t.Errorf("fieldValidation=%s: %d, Warning %q, want %q: %s", mode, resp.StatusCode, got, want, data)
		}
	}
}

// TestAnotherHostWithTheRightToken is DNS rebinding: everything is right but the name.
func TestAnotherHostWithTheRightToken(t *testing.T) {
	r := newRig(t)
	port := r.url[strings.LastIndex(r.url, ":"):]
	for host, want := range map[string]int{
		"127.0.0.1" + port: 200, "localhost" + port: 200, "[::1]" + port: 200, "LOCALHOST" + port: 200,
		"localhost": 403, "127.0.0.1:1": 403, "evil.example" + port: 403, "127.0.0.1.evil.example" + port: 403, "localhost." + port: 403,
	} {
		resp := r.stream(t.Context(), "GET /readyz", "", "Host: "+host)
		resp.close()
		if resp.StatusCode != want {
			t.Errorf("Host %s: %d, want %d", host, resp.StatusCode, want)
		}
	}
}
