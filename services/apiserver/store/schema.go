package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/podfall/podfall/proto/kinds"
)

// The file, in format version 1. It is a bbolt file with two buckets; be64 is a
// big-endian number of eight bytes, crc the CRC-32C of the key and of all of the value
// behind it.
//
//	meta
//	  format         : crc · be64 version
//	  cluster        : crc · uid
//	  state          : crc · be64 revision · be64 compacted · be64 swept
//	                   · be64 objects · be64 digest
//	history
//	  be64 revision  : crc · event
//
//	event = type (1 byte) · be64 previous revision, 0 for none · be64 wall clock in ns
//	        · resource · namespace · name · cause, each behind its length as a uvarint
//	        · object as kinds.Encode writes it, to the end; nothing for a deletion
//
// An object's bytes are written once, in the event that made them; a deletion's content
// is that of its previous revision. The index from keys to revisions is in memory only,
// as in etcd: on disk it would add a page somewhere in the file to nearly every write,
// and takes three quarters of the throughput. Instead state has the number of objects
// and a digest of the index, which tell when a part of history is missing.
//
// These must hold, and Open checks every one:
//
//   - history has each revision from swept+1 to revision;
//   - at or before swept it has exactly the versions that were live at swept;
//   - each event's previous is the version that it replaced;
//   - what the events add up to has the number and the digest that state says.
const formatVersion = 1

// firstRevision is the revision of a new store; no write has it. Lists of an empty cluster need a
// revision other than 0, which has a meaning of its own (WCH-02).
const firstRevision = 1

const (
	bucketMeta    = "meta"
	bucketHistory = "history"

	keyFormat  = "format"
	keyCluster = "cluster"
	keyState   = "state"
)

const (
	sumSize     = 4
	fixedSize   = sumSize + 1 + 8 + 8 // of an event
	maxKeyPart  = 1024                // of a resource, namespace, name
	maxCause    = 4096
	posType     = sumSize
	posPrevious = posType + 1
	posWall     = posPrevious + 8
)

var (
	errChecksum = errors.New("checksum mismatch")
	errShape    = errors.New("not of the form its bucket wants")
)

// seal writes the checksum of key and value into the first bytes of value.
func seal(key, value []byte) {
	binary.BigEndian.PutUint32(value, checksum(key, value[sumSize:]))
}

// unseal verifies what seal wrote and returns the value behind the checksum.
func unseal(key, value []byte) ([]byte, error) {
	if len(value) < sumSize {
		return nil, errShape
	}
	if binary.BigEndian.Uint32(value) != checksum(key, value[sumSize:]) {
		return nil, errChecksum
	}
	return value[sumSize:], nil
}

func checksum(key, payload []byte) uint32 {
	table := crc32.MakeTable(crc32.Castagnoli)
	return crc32.Update(crc32.Update(0, table, key), table, payload)
}

// revisionKey encodes a revision as a key of the history bucket.
func revisionKey(revision int64) []byte {
	return binary.BigEndian.AppendUint64(make([]byte, 0, 8), uint64(revision))
}

// state is the record of counters, rewritten by each commit.
type state struct {
	// revision is that of the last write.
	revision int64
	// compacted is the oldest revision whose state can still be read.
	compacted int64
	// swept is how far the sweep has removed what compaction made unreachable. It follows compacted
	// in bounded steps.
	swept int64
	// objects counts the live objects, digest is the sum of their fingerprints.
	objects, digest int64
}

// add counts an object that is at revision from now on; remove undoes add.
func (s *state) add(key Key, revision int64) {
	s.objects++
	s.digest += fingerprint(key, revision)
}

func (s *state) remove(key Key, revision int64) {
	s.objects--
	s.digest -= fingerprint(key, revision)
}

// count updates the counters for an event.
func (s *state) count(event Event) {
	s.revision = event.Revision
	if event.Previous != nil {
		s.remove(event.Record.Key, event.Previous.Revision)
	}
	if event.Type != Deleted {
		s.add(event.Record.Key, event.Revision)
	}
}

// fingerprint returns 64 bits that depend on all of key and revision. Sums of fingerprints do not
// depend on an order.
func fingerprint(key Key, revision int64) int64 {
	const prime = 1099511628211 // FNV-1a
	sum := uint64(14695981039346656037)
	for _, part := range [...]string{key.Resource, key.Namespace, key.Name} {
		for i := range len(part) {
			sum = (sum ^ uint64(part[i])) * prime
		}
		sum *= prime // a zero byte
	}
	sum = (sum ^ uint64(revision)) * prime
	// FNV leaves neighbours alike; a multiply and shift on the way out does not.
	sum = (sum ^ sum>>32) * 0x9E3779B97F4A7C15
	return int64(sum ^ sum>>29)
}

func (s state) encode() []byte {
	value := make([]byte, sumSize, sumSize+40)
	for _, n := range [...]int64{s.revision, s.compacted, s.swept, s.objects, s.digest} {
		value = binary.BigEndian.AppendUint64(value, uint64(n))
	}
	seal([]byte(keyState), value)
	return value
}

func parseState(value []byte) (state, error) {
	payload, err := unseal([]byte(keyState), value)
	if err != nil {
		return state{}, err
	}
	if len(payload) != 40 {
		return state{}, errShape
	}
	var s state
	for i, n := range [...]*int64{&s.revision, &s.compacted, &s.swept, &s.objects, &s.digest} {
		*n = int64(binary.BigEndian.Uint64(payload[8*i:]))
	}
	if s.swept < firstRevision || s.compacted < s.swept || s.revision < s.compacted {
		return state{}, fmt.Errorf("counters out of order: %+v", s)
	}
	return s, nil
}

// draft is an event in its encoding on disk, without the parts that only the writer knows:
// revision, type, previous revision and time.
type draft struct {
	value []byte
	// data is the object within value.
	data []byte
}

// newDraft encodes obj; nil is a deletion.
func newDraft(key Key, cause string, obj kinds.Object) (draft, error) {
	parts := [...]string{key.Resource, key.Namespace, key.Name, cause}
	size := fixedSize
	for _, part := range parts {
		size += binary.MaxVarintLen16 + len(part)
	}
	value := make([]byte, fixedSize, size)
	for _, part := range parts {
		value = binary.AppendUvarint(value, uint64(len(part)))
		value = append(value, part...)
	}
	from := len(value)
	if obj != nil {
		var err error
		if value, err = kinds.AppendEncode(value, obj); err != nil {
			return draft{}, err
		}
	}
	return draft{value: value, data: value[from:len(value):len(value)]}, nil
}

// finish fills in the missing parts of the draft and seals it under key.
func (d draft) finish(key []byte, event *Event, wall int64) {
	previous := int64(0)
	if event.Previous != nil {
		previous = event.Previous.Revision
	}
	d.value[posType] = byte(event.Type)
	binary.BigEndian.PutUint64(d.value[posPrevious:], uint64(previous))
	binary.BigEndian.PutUint64(d.value[posWall:], uint64(wall))
	seal(key, d.value)
}

// entry is an event decoded from disk.
type entry struct {
	revision int64
	typ      EventType
	previous int64
	wall     int64
	key      Key
	cause    string
	// data points into the file. It is valid until the transaction ends.
	data []byte
}

// parseEntry decodes and verifies one record of history.
func parseEntry(key, value []byte) (entry, error) {
	if len(key) != 8 {
		return entry{}, errShape
	}
	if _, err := unseal(key, value); err != nil {
		return entry{}, err
	}
	if len(value) < fixedSize {
		return entry{}, errShape
	}
	e := entry{
		revision: int64(binary.BigEndian.Uint64(key)),
		typ:      EventType(value[posType]),
		previous: int64(binary.BigEndian.Uint64(value[posPrevious:])),
		wall:     int64(binary.BigEndian.Uint64(value[posWall:])),
	}
	rest := value[fixedSize:]
	for _, part := range []*string{&e.key.Resource, &e.key.Namespace, &e.key.Name, &e.cause} {
		length, n := binary.Uvarint(rest)
		if n <= 0 || length > uint64(len(rest)-n) {
			return entry{}, errShape
		}
		*part = string(rest[n : n+int(length)])
		rest = rest[n+int(length):]
	}
	e.data = rest
	return e, e.check()
}

// check refuses entries that no commit writes.
func (e entry) check() error {
	switch {
	case e.typ < Added || e.typ > Deleted,
		(e.typ == Added) != (e.previous == 0),
		(e.typ == Deleted) != (len(e.data) == 0),
		e.previous < 0 || e.previous >= e.revision:
		return errShape
	}
	return nil
}

// record decodes the entry's object. Nothing may write to the object afterwards, so record encodes
// it once: a resource.Quantity notes its text at its first encoding.
func (e entry) record() (*Record, error) {
	data := bytes.Clone(e.data)
	obj, err := kinds.Decode(data)
	if err != nil {
		return nil, err
	}
	if encodes, ok := obj.(interface{ Size() int }); ok {
		encodes.Size()
	}
	return newRecord(e.key, e.revision, obj, data), nil
}
