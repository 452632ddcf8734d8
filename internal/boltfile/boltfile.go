// Package boltfile verifies a bbolt file before bbolt opens it. bbolt trusts the pages of a file:
// for bad pages it panics, partly on goroutines of its own, reads outside its mapping of the file,
// or silently uses the state before the last commit. [Check] reads the file by itself and has none
// of these problems.
//
// The records' content is not checked: stores that need that keep checksums.
package boltfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"os"
)

// The layout of a bbolt file, version 2, as far as Check relies on it. Numbers are in the
// machine's own byte order.
//
//	page    u64 id · u16 flags · u16 count · u32 overflow (pages that follow it)
//	meta    u32 magic · u32 version · u32 page size · u32 flags · bucket · u64 freelist
//	        · u64 pages in use · u64 transaction · u64 FNV-1a of all before
//	bucket  u64 root page, 0 when it is inline behind this · u64 sequence
//	branch  count × (u32 position of the key, from here · u32 its length · u64 child)
//	leaf    count × (u32 flags · u32 position · u32 key length · u32 value length)
const (
	boltMagic   = 0xED0CDAED
	boltVersion = 2

	pageHeader    = 16
	metaSize      = 64
	bucketSize    = 16
	elementSize   = 16
	flagBranch    = 0x01
	flagLeaf      = 0x02
	flagMeta      = 0x04
	elementBucket = 0x01 // of a leaf's element: the value is a bucket
	noFreelist    = ^uint64(0)
	maxDepth      = 64
)

var errChecksum = errors.New("checksum mismatch")

// DamageError describes where a file differs from what bbolt writes.
type DamageError struct {
	Path string
	// Bucket of the page; empty if the page belongs to none or to an unknown one.
	Bucket string
	// Record names the damaged part: "page 7", "the file".
	Record string
	// What describes the damage.
	What string
}

// Error names the file, the page and the damage.
func (e *DamageError) Error() string {
	where := e.Record
	if e.Bucket != "" {
		where = e.Bucket + ": " + where
	}
	return fmt.Sprintf("%s is damaged: %s: %s", e.Path, where, e.What)
}

// pages walks a file.
type pages struct {
	path   string
	file   *os.File
	size   uint64 // of a page
	inUse  uint64
	seen   []uint64 // bit set of pages
	bucket string
}

// keyRange is the range of keys that a page may hold: from low, below high unless high is nil.
type keyRange struct{ low, high []byte }

// Check verifies the file at path. It checks that all reachable pages exist, have the right kind,
// size and place, that none is used twice, and that keys are ordered. It returns a *[DamageError],
// or an error if the file cannot be read. The file must have been written with NoFreelistSync, hold
// buckets only at the top and records only below, and not be written to meanwhile.
//
// A bad meta page is refused, although bbolt would continue with the other one: that one lacks the
// last commit, which was acknowledged. A crash leaves no bad meta page, because a meta page is
// within one sector.
func Check(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	p := &pages{path: path, file: file}
	err = p.check()
	var system *fs.PathError
	if err != nil && !errors.As(err, &system) && !errors.As(err, new(*DamageError)) {
		err = p.damageError("the file", err.Error())
	}
	return errors.Join(err, file.Close())
}

func (p *pages) damageError(record, what string) error {
	return &DamageError{Path: p.path, Bucket: p.bucket, Record: record, What: what}
}

func (p *pages) pageError(id uint64, format string, args ...any) error {
	return p.damageError(fmt.Sprintf("page %d", id), fmt.Sprintf(format, args...))
}

func (p *pages) check() error {
	root, err := p.readMetas()
	if err != nil {
		return err
	}
	info, err := p.file.Stat()
	if err != nil {
		return err
	}
	if have := uint64(info.Size()) / p.size; have < p.inUse {
		return p.damageError("the file", fmt.Sprintf("cut short: %d of %d pages", have, p.inUse))
	}
	p.seen = make([]uint64, p.inUse/64+1)
	return p.walk(root, keyRange{}, maxDepth)
}

// readMetas reads both meta pages and returns the root page of the newer one.
func (p *pages) readMetas() (uint64, error) {
	first, err := p.readMeta(0, 0)
	if err != nil {
		return 0, err
	}
	p.size = uint64(binary.NativeEndian.Uint32(first[8:]))
	if p.size < 1024 || p.size > 1<<24 || p.size&(p.size-1) != 0 {
		return 0, p.pageError(0, "a page size of %d", p.size)
	}
	second, err := p.readMeta(1, p.size)
	if err != nil {
		return 0, err
	}
	transaction := func(meta []byte) uint64 { return binary.NativeEndian.Uint64(meta[48:]) }
	newer := first
	if transaction(second) > transaction(first) {
		newer = second
	}
	if older := min(transaction(first), transaction(second)); older+1 != transaction(newer) {
		return 0, p.pageError(transaction(newer)%2, "transaction %d follows %d", transaction(newer), older)
	}
	p.inUse = binary.NativeEndian.Uint64(newer[40:])
	if p.inUse < 2 || p.inUse > 1<<40 {
		return 0, p.pageError(transaction(newer)%2, "%d pages in use", p.inUse)
	}
	if free := binary.NativeEndian.Uint64(newer[32:]); free != noFreelist {
		return 0, p.pageError(transaction(newer)%2, "it has a free list, which a store never writes")
	}
	return binary.NativeEndian.Uint64(newer[16:]), nil
}

func (p *pages) readMeta(id, offset uint64) ([]byte, error) {
	page := make([]byte, pageHeader+metaSize)
	if _, err := p.file.ReadAt(page, int64(offset)); err != nil {
		return nil, p.readError(id, err)
	}
	meta := page[pageHeader:]
	sum := fnv.New64a()
	sum.Write(meta[:metaSize-8])
	switch {
	case binary.NativeEndian.Uint32(meta) != boltMagic:
		return nil, p.pageError(id, "no bbolt file starts like this")
	case binary.NativeEndian.Uint64(meta[metaSize-8:]) != sum.Sum64():
		return nil, p.pageError(id, "meta page: %v", errChecksum)
	case binary.NativeEndian.Uint32(meta[4:]) != boltVersion:
		return nil, p.pageError(id, "bbolt version %d", binary.NativeEndian.Uint32(meta[4:]))
	}
	return meta, nil
}

func (p *pages) readError(id uint64, err error) error {
	if errors.Is(err, io.EOF) {
		return p.pageError(id, "cut short")
	}
	return p.pageError(id, "%v", err)
}

// walk verifies a page and all below it.
func (p *pages) walk(id uint64, keys keyRange, depth int) error {
	page, err := p.readPage(id)
	if err != nil {
		return err
	}
	if depth == 0 {
		return p.pageError(id, "too deep")
	}
	switch flags := binary.NativeEndian.Uint16(page[8:]); flags {
	case flagBranch:
		return p.checkBranch(id, page, keys, depth)
	case flagLeaf:
		return p.checkLeaf(id, page, keys, depth)
	default:
		return p.pageError(id, "neither branch nor leaf: flags %#x", flags)
	}
}

// readPage returns a page with its overflow. Each page may be read once.
func (p *pages) readPage(id uint64) ([]byte, error) {
	if id < 2 || id >= p.inUse {
		return nil, p.pageError(id, "of %d in use", p.inUse)
	}
	header := make([]byte, pageHeader)
	if _, err := p.file.ReadAt(header, int64(id*p.size)); err != nil {
		return nil, p.readError(id, err)
	}
	if named := binary.NativeEndian.Uint64(header); named != id {
		return nil, p.pageError(id, "it calls itself %d", named)
	}
	length := uint64(binary.NativeEndian.Uint32(header[12:])) + 1
	if length > p.inUse-id {
		return nil, p.pageError(id, "%d pages long, of %d in use", length, p.inUse)
	}
	for n := id; n < id+length; n++ {
		if p.seen[n/64]&(1<<(n%64)) != 0 {
			return nil, p.pageError(n, "used twice")
		}
		p.seen[n/64] |= 1 << (n % 64)
	}
	page := make([]byte, length*p.size)
	if _, err := p.file.ReadAt(page, int64(id*p.size)); err != nil {
		return nil, p.readError(id, err)
	}
	return page, nil
}

func (p *pages) checkBranch(id uint64, page []byte, keys keyRange, depth int) error {
	count := int(binary.NativeEndian.Uint16(page[10:]))
	if count == 0 {
		return p.pageError(id, "a branch without children")
	}
	type child struct {
		key []byte
		id  uint64
	}
	children := make([]child, 0, count)
	for i := range count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(page) {
			return p.pageError(id, "child %d of %d beyond its end", i, count)
		}
		position, size := binary.NativeEndian.Uint32(page[at:]), binary.NativeEndian.Uint32(page[at+4:])
		key, ok := sliceAt(page[at:], position, size)
		if !ok {
			return p.pageError(id, "the key of child %d beyond its end", i)
		}
		children = append(children, child{key: key, id: binary.NativeEndian.Uint64(page[at+8:])})
	}
	for i, c := range children {
		below := keyRange{low: c.key, high: keys.high}
		if i+1 < len(children) {
			below.high = children[i+1].key
		}
		if !keys.contains(c.key) || below.high != nil && bytes.Compare(c.key, below.high) >= 0 {
			return p.pageError(id, "the key of child %d out of order", i)
		}
		if err := p.walk(c.id, below, depth-1); err != nil {
			return err
		}
	}
	return nil
}

func (s keyRange) contains(key []byte) bool {
	return bytes.Compare(key, s.low) >= 0 && (s.high == nil || bytes.Compare(key, s.high) < 0)
}

// checkLeaf verifies a leaf. In the root bucket the values are buckets.
func (p *pages) checkLeaf(id uint64, page []byte, keys keyRange, depth int) error {
	count := int(binary.NativeEndian.Uint16(page[10:]))
	var last []byte
	for i := range count {
		at := pageHeader + i*elementSize
		if at+elementSize > len(page) {
			return p.pageError(id, "record %d of %d beyond its end", i, count)
		}
		flags, position := binary.NativeEndian.Uint32(page[at:]), binary.NativeEndian.Uint32(page[at+4:])
		keySize, valueSize := binary.NativeEndian.Uint32(page[at+8:]), binary.NativeEndian.Uint32(page[at+12:])
		key, ok := sliceAt(page[at:], position, keySize)
		value, fits := sliceAt(page[at:], position+keySize, valueSize)
		if !ok || !fits || position+keySize < position {
			return p.pageError(id, "record %d beyond its end", i)
		}
		if !keys.contains(key) || i > 0 && bytes.Compare(last, key) >= 0 {
			return p.pageError(id, "record %d out of order", i)
		}
		last = key
		if err := p.checkElement(id, flags, key, value, depth); err != nil {
			return err
		}
	}
	return nil
}

// sliceAt returns n bytes from position on, or false if there are fewer.
func sliceAt(from []byte, position, n uint32) ([]byte, bool) {
	if uint64(position)+uint64(n) > uint64(len(from)) {
		return nil, false
	}
	return from[position : position+n], true
}

// checkElement verifies one record of a leaf: a bucket in the root bucket, a plain record
// elsewhere.
func (p *pages) checkElement(id uint64, flags uint32, key, value []byte, depth int) error {
	if p.bucket != "" {
		if flags != 0 {
			return p.pageError(id, "a record with flags %#x", flags)
		}
		return nil
	}
	if flags != elementBucket || len(value) < bucketSize {
		return p.pageError(id, "a bucket with flags %#x and %d bytes", flags, len(value))
	}
	p.bucket = string(key)
	defer func() { p.bucket = "" }()
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return p.walk(root, keyRange{}, depth-1)
	}
	inline := value[bucketSize:]
	if len(inline) < pageHeader || binary.NativeEndian.Uint16(inline[8:]) != flagLeaf {
		return p.pageError(id, "an inline bucket that is no leaf")
	}
	return p.checkLeaf(id, inline, keyRange{}, depth-1)
}
