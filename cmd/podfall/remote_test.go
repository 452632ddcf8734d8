package main

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podfall/podfall/internal/podapi"
	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// fixedResponse is a gateway that gives the same response to every request.
type fixedResponse struct {
	code        int
	contentType string
	data        []byte
}

func (a fixedResponse) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: a.code, Header: http.Header{"Content-Type": {a.contentType}}, Body: io.NopCloser(bytes.NewReader(a.data)),
	}, nil
}

// FuzzRemote: whatever a gateway responds, Get returns a Pod and List returns only Pods, and both
// round-trip. An invalid response is an error that says so, and a refusal has the API's reason or
// the status code.
func FuzzRemote(f *testing.F) {
	pods, _ := kinds.ByResource("pods")
	target := podapi.Target{Kind: pods, Namespace: "default"}
	for _, obj := range []runtime.Object{
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		&corev1.PodList{Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p"}}}}, proto.StatusFrom(apierrors.NewNotFound(pods.GroupResource(), "p")),
	} {
		data, err := kinds.Encode(obj)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(true, uint16(http.StatusOK), data)
		f.Add(true, uint16(http.StatusNotFound), data)
		f.Add(true, uint16(http.StatusOK), data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, binary bool, code uint16, data []byte) {
		answer := fixedResponse{int(code), runtime.ContentTypeJSON, data}
		if binary {
			answer.contentType = runtime.ContentTypeProtobuf
		}
		if code >= http.StatusMultipleChoices && code < http.StatusBadRequest {
			return // the client follows
		}
		gateway := &remote{http: &http.Client{Transport: answer}, base: "http://gateway"}
		page, err := gateway.List(t.Context(), target, metav1.ListOptions{})
		checkError(t, answer, err)
		if err == nil {
			for _, item := range page.Items {
				checkPod(t, data, item)
			}
		}
		target := target
		target.Name = "p"
		pod, err := gateway.Get(t.Context(), target, metav1.GetOptions{})
		checkError(t, answer, err)
		if err != nil {
			return
		}
		checkPod(t, data, pod)
		again, err := kinds.Encode(pod)
		if err != nil {
			t.Fatalf("%q cannot be written: %v", data, err)
		}
		gateway.http.Transport = fixedResponse{http.StatusOK, runtime.ContentTypeProtobuf, again}
		if read, err := gateway.Get(t.Context(), target, metav1.GetOptions{}); err != nil || !kinds.Equal(read, pod) {
			t.Errorf("%q: %v, and written again %v (%v)", data, pod, read, err)
		}
	})
}

func checkPod(t *testing.T, data []byte, obj kinds.Object) {
	t.Helper()
	if _, is := obj.(*corev1.Pod); !is || obj.GetObjectKind().GroupVersionKind() != corev1.SchemeGroupVersion.WithKind("Pod") {
		t.Errorf("%q is %T, of %v", data, obj, obj.GetObjectKind().GroupVersionKind())
	}
}

// checkError checks how a request ended.
func checkError(t *testing.T, answer fixedResponse, err error) {
	t.Helper()
	switch {
	case err == nil:
		if answer.code >= http.StatusBadRequest {
			t.Errorf("%d with %q is no error", answer.code, answer.data)
		}
	case err.Error() == "":
		t.Errorf("%d with %q is refused without a word", answer.code, answer.data)
	case answer.code >= http.StatusBadRequest:
		var refused apierrors.APIStatus
		if known := errors.As(err, &refused) && refused.Status().Status != metav1.StatusSuccess; !known && !strings.Contains(err.Error(), strconv.Itoa(answer.code)) {
			t.Errorf("%d with %q: %v", answer.code, answer.data, err)
		}
	}
}
