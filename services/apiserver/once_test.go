package apiserver_test

import (
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/proto/kinds"
)

// TestTwiceWithoutAnEvent repeats requests that changed nothing the first time, as a client
// does whose answer was lost. When they come again they get that answer, and do nothing to
// what has the name by then (guarantees N1 and D9).
func TestTwiceWithoutAnEvent(t *testing.T) {
	encode := func(message interface{ Marshal() ([]byte, error) }) []byte {
		data, err := message.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	rows := []struct {
		what, subject string
		request       *proto.Request
	}{
		{"a delete of what is marked (API-21)", "delete.pods.default.p", &proto.Request{Options: encode(&metav1.DeleteOptions{})}},
		{"a delete that would lengthen (API-22)", "delete.pods.default.p", &proto.Request{
			Options: encode(&metav1.DeleteOptions{GracePeriodSeconds: new(int64(60))}),
		}},
		{"a collection, all of it marked", "deletecollection.pods.default._", &proto.Request{Options: encode(&metav1.DeleteOptions{})}},
	}
	for _, row := range rows {
		synctest.Test(t, func(t *testing.T) {
			s := newHarness(t)
			user, conn := s.client("client:me"), s.dial("client:me")
			user.create()
			user.bind()
			user.delete(metav1.DeleteOptions{})
			row.request.Version, row.request.Operation = proto.Version, "again"
			subject := "api.client:me." + row.subject
			first, _ := s.raw(conn, subject, marshal(row.request))
			user.delete(grace(0))
			user.create()
			user.bind()
			second, _ := s.raw(conn, subject, marshal(row.request))
			if first.GetCode() != 200 || second.GetCode() != 200 || first.String() != second.String() {
				t.Errorf("%s:\n first %d %v\nsecond %d %v", row.what, first.GetCode(), first, second.GetCode(), second)
			}
			if pod := user.get(); pod.DeletionTimestamp != nil {
				t.Errorf("%s: the successor was marked", row.what)
			}
		})
	}
}

// TestAnOperationIsOneRequest uses an operation again for another request: it is refused,
// also where the first has left no event.
func TestAnOperationIsOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newHarness(t)
		user, conn := s.client("client:me"), s.dial("client:me")
		user.create()
		user.bind()
		user.delete(metav1.DeleteOptions{})
		again := func() *proto.Request { return &proto.Request{Version: proto.Version, Operation: "again"} }
		if got, status := s.raw(conn, "api.client:me.delete.pods.default.p", marshal(again())); got.GetCode() != 200 {
			t.Fatal(status)
		}
		patch := again()
		patch.ContentType, patch.Body = "application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`)
		force := again()
		options, err := new(grace(0)).Marshal()
		if err != nil {
			t.Fatal(err)
		}
		force.Options = options
		body, err := kinds.Encode(user.get())
		if err != nil {
			t.Fatal(err)
		}
		update := again()
		update.ContentType, update.Body = kinds.ContentTypeProtobuf, body
		for subject, request := range map[string]*proto.Request{
			"patch.pods.default.p": patch, "delete.pods.default.p": force, "update.pods.default.p": update,
			"delete.pods.default.q": again(), "deletecollection.pods.default._": again(),
		} {
			got, status := s.raw(conn, "api.client:me."+subject, marshal(request))
			if got.GetCode() != 400 || status.Message != `operation: "again" has been another request's; want a new one for each request` {
				t.Errorf("%s: %d %v", subject, got.GetCode(), status)
			}
		}
		late := again()
		late.DeadlineUnixNano = 1 << 62
		if got, status := s.raw(conn, "api.client:me.delete.pods.default.p", marshal(late)); got.GetCode() != 200 {
			t.Errorf("the same with another deadline: %v", status)
		}
	})
}
