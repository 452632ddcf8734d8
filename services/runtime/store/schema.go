package store

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/podfall/podfall/proto"
	"github.com/podfall/podfall/services/runtime/engine"
)

// The file, in format version 2. It is a bbolt file with five buckets; be64 is a
// big-endian number of eight bytes, crc the CRC-32C of the bucket's name, the key and
// all of the value behind it; times are in ns since 1970.
//
//	meta
//	  format                    : crc · be64 version
//	  whole                     : crc · be64 transaction · be64 sum of the crc of all records
//	sandboxes
//	  sandbox id                : crc · Sandbox, as proto encodes it
//	containers
//	  container id              : crc · be64 created · CreateContainerRequest
//	events
//	  container id 00 start     : crc · be64 time    its start was asked for
//	  container id 00 stop      : crc · be64 time    the stop signal was sent
//	  container id 00 kill      : crc · be64 time    SIGKILL was sent for the first time
//	  container id 00 exit      : crc · JSON Exit    it has exited
//	history
//	  be64 sequence             : crc · JSON Entry
//
// A container's record never changes: what happens to it is added as events, so that a
// start or a signal writes a few bytes. There is no event without its container: they
// are removed together, and an event that comes later is left out.
//
// A record's own checksum does not tell that there was another, or a newer one: meta whole
// does, which every transaction writes.
const formatVersion = 2

const (
	bucketMeta       = "meta"
	bucketSandboxes  = "sandboxes"
	bucketContainers = "containers"
	bucketEvents     = "events"
	bucketHistory    = "history"

	keyFormat = "format"
	keyTally  = "whole"

	eventStart = "start"
	eventStop  = "stop"
	eventKill  = "kill"
	eventExit  = "exit"

	separator = "\x00"
	sumSize   = 4
)

// buckets lists all buckets.
func buckets() []string {
	return []string{bucketMeta, bucketSandboxes, bucketContainers, bucketEvents, bucketHistory}
}

var (
	errChecksum = errors.New("checksum mismatch")
	errShape    = errors.New("not of the form its bucket wants")
	errOrphan   = errors.New("belongs to nothing")
	errTally    = errors.New("records are missing, or old")
)

// Container is a recorded container.
type Container struct {
	ID      string
	Created time.Time
	Request *proto.CreateContainerRequest
	Events  engine.Events
	// Exit is nil until the exit is on record.
	Exit *Exit
}

// Exit records how a container ended.
type Exit struct {
	Started  int64  `json:"started,omitempty"`
	Finished int64  `json:"finished"`
	Code     int32  `json:"code"`
	Reason   string `json:"reason"`
	Message  string `json:"message,omitempty"`
}

// Entry is one history entry: an action on a container, or its exit.
type Entry struct {
	// Sequence numbers the entries of a store from 1, without gaps.
	Sequence uint64 `json:"-"`
	// At is the cluster time in ns since 1970.
	At int64 `json:"at"`
	// Boot is the runtime's incarnation.
	Boot string `json:"boot,omitempty"`
	// What is create, start, signal, exit or remove.
	What      string `json:"what"`
	Container string `json:"container"`
	Name      string `json:"name,omitempty"`
	Pod       string `json:"pod,omitempty"`
	UID       string `json:"uid,omitempty"`
	// Signal belongs to signal, Code to exit.
	Signal string `json:"signal,omitempty"`
	Code   int32  `json:"code,omitempty"`
}

// Values of Entry.What.
const (
	Created  = "create"
	Started  = "start"
	Signaled = "signal"
	Exited   = "exit"
	Removed  = "remove"
)

// Op is one change to be written to the store.
type Op struct {
	bucket string
	key    string
	// value is nil for a removal, which deletes the key and all keys that begin with it and a
	// separator.
	value []byte
	// note sets the key to the history's next sequence.
	note bool
	// lazy means that no commit waits for it.
	lazy bool
}

// PutSandbox creates or replaces a sandbox's record.
func PutSandbox(sandbox *proto.Sandbox) (Op, error) {
	body, err := protobuf.Marshal(sandbox)
	if err != nil {
		return Op{}, fmt.Errorf("encode sandbox %s: %w", sandbox.Id, err)
	}
	return put(bucketSandboxes, sandbox.Id, body), nil
}

// PutContainer writes a new container's record, without events.
func PutContainer(c Container) (Op, error) {
	body := binary.BigEndian.AppendUint64(nil, uint64(c.Created.UnixNano()))
	body, err := protobuf.MarshalOptions{}.MarshalAppend(body, c.Request)
	if err != nil {
		return Op{}, fmt.Errorf("encode container %s: %w", c.ID, err)
	}
	return put(bucketContainers, c.ID, body), nil
}

// PutStart records when a container's start was requested.
func PutStart(id string, at time.Time) Op { return putTime(id, eventStart, at) }

// PutStop records when the stop signal was sent.
func PutStop(id string, at time.Time) Op { return putTime(id, eventStop, at) }

// PutKill records when SIGKILL was first sent.
func PutKill(id string, at time.Time) Op { return putTime(id, eventKill, at) }

// PutExit records how a container ended.
func PutExit(id string, exit Exit) Op {
	return put(bucketEvents, id+separator+eventExit, encodeJSON(exit))
}

// Note appends an entry to the history; the store sets its sequence.
func Note(entry Entry) Op {
	return Op{bucket: bucketHistory, value: append(make([]byte, sumSize), encodeJSON(entry)...), note: true}
}

// encodeJSON encodes a value with plain fields, which cannot fail.
func encodeJSON(plain any) []byte {
	body, _ := json.Marshal(plain)
	return body
}

// RemoveSandbox removes a sandbox's record.
func RemoveSandbox(id string) []Op { return []Op{{bucket: bucketSandboxes, key: id}} }

// RemoveContainer removes a container's record and its events.
func RemoveContainer(id string) []Op {
	return []Op{{bucket: bucketContainers, key: id}, {bucket: bucketEvents, key: id}}
}

func putTime(id, event string, at time.Time) Op {
	return put(bucketEvents, id+separator+event, binary.BigEndian.AppendUint64(nil, uint64(at.UnixNano())))
}

func put(bucket, key string, body []byte) Op {
	value := append(make([]byte, sumSize, sumSize+len(body)), body...)
	seal(bucket, key, value)
	return Op{bucket: bucket, key: key, value: value}
}

// seal writes the checksum into value's first bytes.
func seal(bucket, key string, value []byte) {
	binary.BigEndian.PutUint32(value, checksum(bucket, key, value[sumSize:]))
}

// unseal verifies the checksum and returns the body.
func unseal(bucket, key string, value []byte) ([]byte, error) {
	if len(value) < sumSize {
		return nil, errShape
	}
	if binary.BigEndian.Uint32(value) != checksum(bucket, key, value[sumSize:]) {
		return nil, errChecksum
	}
	return value[sumSize:], nil
}

func checksum(bucket, key string, body []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	sum := crc32.Update(0, table, []byte(bucket+separator+key+separator))
	return crc32.Update(sum, table, body)
}

// tally is the sum of all records' checksums. Each change updates it.
type tally uint64

func (t *tally) add(value []byte) { *t += tally(binary.BigEndian.Uint32(value)) }

// drop subtracts a removed or replaced record; nil is none.
func (t *tally) drop(value []byte) {
	if value != nil {
		*t -= tally(binary.BigEndian.Uint32(value))
	}
}

// putTally records a transaction's id and tally.
func putTally(transaction int, t tally) Op {
	body := binary.BigEndian.AppendUint64(nil, uint64(transaction))
	return put(bucketMeta, keyTally, binary.BigEndian.AppendUint64(body, uint64(t)))
}

// readTally decodes a putTally record.
func readTally(value []byte) (transaction int, t tally, err error) {
	body, err := unseal(bucketMeta, keyTally, value)
	if err == nil && len(body) != 16 {
		err = errShape
	}
	if err != nil {
		return 0, 0, err
	}
	return int(binary.BigEndian.Uint64(body)), tally(binary.BigEndian.Uint64(body[8:])), nil
}

func historyKey(sequence uint64) string {
	return string(binary.BigEndian.AppendUint64(nil, sequence))
}

// Contents holds all records of a store except the history.
type Contents struct {
	Sandboxes  []*proto.Sandbox
	Containers []*Container

	byID map[string]*Container
}

// readRecord adds one record. Containers must come before events.
func (c *Contents) readRecord(bucket, key string, value []byte) error {
	body, err := unseal(bucket, key, value)
	if err != nil {
		return err
	}
	switch bucket {
	case bucketSandboxes:
		var sandbox proto.Sandbox
		if protobuf.Unmarshal(body, &sandbox) != nil || sandbox.Id != key {
			return errShape
		}
		c.Sandboxes = append(c.Sandboxes, &sandbox)
		return nil
	case bucketContainers:
		return c.readContainer(key, body)
	case bucketEvents:
		return c.readEvent(key, body)
	case bucketHistory:
		_, err := readEntry(key, body)
		return err
	}
	return nil
}

func (c *Contents) readContainer(id string, body []byte) error {
	var req proto.CreateContainerRequest
	if len(body) < 8 || protobuf.Unmarshal(body[8:], &req) != nil {
		return errShape
	}
	container := &Container{ID: id, Created: decodeTime(body), Request: &req}
	c.Containers = append(c.Containers, container)
	c.byID[id] = container
	return nil
}

func (c *Contents) readEvent(key string, body []byte) error {
	id, event, _ := strings.Cut(key, separator)
	container, ok := c.byID[id]
	if !ok {
		return errOrphan
	}
	if event == eventExit {
		container.Exit = &Exit{}
		if json.Unmarshal(body, container.Exit) != nil {
			return errShape
		}
		return nil
	}
	if len(body) != 8 {
		return errShape
	}
	switch event {
	case eventStart:
		container.Events.Start = decodeTime(body)
	case eventStop:
		container.Events.Stop = decodeTime(body)
	case eventKill:
		container.Events.Kill = decodeTime(body)
	default:
		return errShape
	}
	return nil
}

func readEntry(key string, body []byte) (Entry, error) {
	var entry Entry
	if len(key) != 8 || json.Unmarshal(body, &entry) != nil {
		return Entry{}, errShape
	}
	entry.Sequence = binary.BigEndian.Uint64([]byte(key))
	return entry, nil
}

func decodeTime(body []byte) time.Time { return time.Unix(0, int64(binary.BigEndian.Uint64(body))) }
