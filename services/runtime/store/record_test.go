package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/proto"
)

// FuzzRecord: a record with a valid checksum is rejected with a known error, or round-trips. A
// record with a changed byte is rejected.
func FuzzRecord(f *testing.F) {
	f.Fuzz(func(t *testing.T, number uint8, key string, body []byte, at uint16) {
		bucket := buckets()[int(number)%len(buckets())]
		value := put(bucket, key, body).value
		known := &Container{ID: "c"}
		contents := &Contents{byID: map[string]*Container{"c": known}}
		err := contents.readRecord(bucket, key, value)
		if err != nil && !errors.Is(err, errShape) && !errors.Is(err, errOrphan) {
			t.Errorf("%s %q: %v", bucket, key, err)
		}
		if err == nil {
			sameRecord(t, contents, bucket, key, value)
		}
		if _, _, err := readTally(value); err == nil && (bucket != bucketMeta || key != keyTally || len(body) != 16) {
			t.Errorf("%s %q: %q was read as whole", bucket, key, body)
		}
		value = bytes.Clone(value)
		value[int(at)%len(value)] ^= 1
		if err := contents.readRecord(bucket, key, value); !errors.Is(err, errChecksum) {
			t.Errorf("%s %q with a wrong byte: %v", bucket, key, err)
		}
	})
}

// sameRecord writes what was read again.
func sameRecord(t *testing.T, contents *Contents, bucket, key string, value []byte) {
	t.Helper()
	known := contents.byID["c"]
	again := &Contents{byID: map[string]*Container{"c": {ID: "c"}}}
	var op Op
	var err error
	switch {
	case bucket == bucketSandboxes:
		op, err = PutSandbox(contents.Sandboxes[0])
	case bucket == bucketContainers:
		op, err = PutContainer(*contents.Containers[0])
	case bucket == bucketEvents && !known.Events.Start.IsZero():
		op = PutStart("c", known.Events.Start)
	case bucket == bucketEvents && !known.Events.Stop.IsZero():
		op = PutStop("c", known.Events.Stop)
	case bucket == bucketEvents && !known.Events.Kill.IsZero():
		op = PutKill("c", known.Events.Kill)
	case bucket == bucketEvents && known.Exit != nil:
		op = PutExit("c", *known.Exit)
	default: // the history is read by its number, and meta elsewhere
		return
	}
	if err != nil || op.bucket != bucket || op.key != key {
		t.Fatalf("%s %q: written as %s %q (%v)", bucket, key, op.bucket, op.key, err)
	}
	if len(contents.Containers)+len(contents.Sandboxes) == 0 && known.Exit == nil && !bytes.Equal(op.value, value) {
		t.Errorf("%s %q: %q, and written again %q", bucket, key, value, op.value)
	}
	if err := again.readRecord(op.bucket, op.key, op.value); err != nil {
		t.Fatalf("%s %q: wrote %q, which cannot be read: %v", bucket, key, op.value, err)
	}
	if a, b := contentsText(t, contents), contentsText(t, again); a != b {
		t.Errorf("%s %q: %s, and read again %s", bucket, key, a, b)
	}
}

// contentsText returns contents as text.
func contentsText(t *testing.T, contents *Contents) string {
	t.Helper()
	var text []byte
	for _, message := range messages(contents) {
		data, err := protobuf.MarshalOptions{Deterministic: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, data...), '\n')
	}
	for _, c := range append(contents.Containers, contents.byID["c"]) {
		exit, err := json.Marshal(c.Exit)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, c.ID+c.Created.String()...), exit...)
	}
	return string(text)
}

func messages(contents *Contents) []protobuf.Message {
	var all []protobuf.Message
	for _, box := range contents.Sandboxes {
		all = append(all, box)
	}
	for _, c := range contents.Containers {
		all = append(all, c.Request)
	}
	return append(all, &proto.Sandbox{})
}
