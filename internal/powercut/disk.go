package powercut

import (
	"bytes"
	"hash/maphash"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

const page = 4096

// isZeroPage reports whether a page consists of zeros and need not be stored.
func isZeroPage(data []byte) bool {
	return !slices.ContainsFunc(data, func(b byte) bool { return b != 0 })
}

// content is a file's data, in pages; missing pages are zeros. Pages are shared between disks and
// with the log, and replaced instead of changed.
type content struct {
	size  int64
	pages map[int64][]byte
}

func (d Disk) clone() Disk {
	out := Disk{names: maps.Clone(d.names), files: map[uint64]*content{}}
	if out.names == nil {
		out.names = map[string]uint64{}
	}
	for id, c := range d.files {
		out.files[id] = &content{size: c.size, pages: maps.Clone(c.pages)}
	}
	return out
}

func (d Disk) file(id uint64) *content {
	if d.files[id] == nil {
		d.files[id] = &content{pages: map[int64][]byte{}}
	}
	return d.files[id]
}

func (d Disk) rename(op operation) {
	delete(d.names, op.path)
	delete(d.names, op.oldPath)
	if op.file != 0 {
		d.names[op.path] = op.file
		d.file(op.file)
	}
}

// sizeAfter returns a file's size after a write or a resize.
func (op operation) sizeAfter(size int64) int64 {
	if op.kind == resize {
		return op.offset
	}
	return max(size, op.offset+int64(len(op.data)))
}

func (c *content) apply(op operation) {
	size := op.sizeAfter(c.size)
	if op.kind == write {
		c.write(op.offset, op.data)
	}
	c.resize(size)
}

func (c *content) write(offset int64, data []byte) {
	for len(data) > 0 {
		number, within := offset/page, offset%page
		n := min(page-within, int64(len(data)))
		switch {
		case n == page && isZeroPage(data[:n]):
			delete(c.pages, number)
		case n == page:
			c.pages[number] = data[:page:page]
		default:
			fresh := make([]byte, page)
			copy(fresh, c.pages[number])
			copy(fresh[within:], data[:n])
			c.pages[number] = fresh
		}
		offset, data = offset+n, data[n:]
	}
	c.size = max(c.size, offset)
}

// tear writes some sectors of a write, and nothing of a resize.
func (c *content) tear(op operation, draw func(n int) int) {
	if op.kind != write {
		return
	}
	for from := int64(0); from < int64(len(op.data)); {
		at := op.offset + from
		until := min(from+Sector-at%Sector, int64(len(op.data)))
		if draw(2) == 0 {
			c.write(at, op.data[from:until])
		}
		from = until
	}
}

// resize sets the file's size. Data beyond the new end becomes zeros for good.
func (c *content) resize(size int64) {
	if size < c.size {
		for number := range c.pages {
			if number*page >= size {
				delete(c.pages, number)
			}
		}
		if last := c.pages[size/page]; last != nil {
			c.pages[size/page] = append(bytes.Clone(last[:size%page]), make([]byte, page-size%page)...)
		}
	}
	c.size = size
}

// Hash returns equal values for disks with equal content that were cut from one log, given the same
// seed.
func (d Disk) Hash(seed maphash.Seed) uint64 {
	var sum uint64
	for short, id := range d.names {
		type part struct {
			name    string
			number  int64
			content uint64
		}
		c := d.files[id]
		sum ^= maphash.Comparable(seed, part{short, c.size, id})
		for number, data := range c.pages {
			sum ^= maphash.Comparable(seed, part{short, -1 - number, maphash.Bytes(seed, data)})
		}
	}
	return sum
}

// Restore replaces the content of the directory by this disk.
func (d Disk) Restore(dir string) error {
	there, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range there {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	first := map[uint64]string{}
	for _, short := range slices.Sorted(maps.Keys(d.names)) {
		id, path := d.names[short], filepath.Join(dir, short)
		if other, linked := first[id]; linked {
			err = os.Link(other, path)
		} else {
			first[id] = path
			err = d.files[id].restore(path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *content) restore(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer file.Close()
	for number, data := range c.pages {
		if _, err := file.WriteAt(data, number*page); err != nil {
			return err
		}
	}
	return file.Truncate(c.size)
}
