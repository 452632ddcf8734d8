// Package powercut computes what a power cut may leave of a program's files. It records every
// write, truncation, rename and sync of a real process. From that it rebuilds what a disk may hold
// if the power fails at any moment: everything that was synced, and of everything later, sector by
// sector, any version.
//
// The disk is assumed to guarantee only this:
//
// - a sector of 512 bytes is written completely or not at all; sectors in any order;
// - fsync and fdatasync cover the bytes and the size of their file, and not its name;
// - names change in the order of the calls, as in a journal, and are durable once their directory was synced.
//
// The process is traced by the kernel's ptrace. So it runs unchanged code with unchanged system
// calls, and a missing sync anywhere below becomes visible.
package powercut

import (
	"maps"
	"slices"
)

// Sector is the unit in bytes that a disk writes completely or not at all.
const Sector = 512

type kind uint8

const (
	write   kind = iota + 1
	resize       // to offset
	sync         // of a file; covers the operations before covers
	setName      // path refers to file from now on, or to none if file is 0
	syncDir      // covers as for sync
	output       // data on standard output
)

// operation is one system call, in the kernel's order. A write is recorded at its entry, a sync at
// its return.
type operation struct {
	kind    kind
	file    uint64 // inode number
	offset  int64
	data    []byte
	path    string // within the directory
	oldPath string // name that a rename removes
	covers  int
}

// Log is what a process did to the files of one directory.
type Log struct {
	// before is the initial content of the directory, all of it durable.
	before     Disk
	operations []operation
}

// Disk is the content of a directory after a power cut, or before.
type Disk struct {
	names map[string]uint64
	files map[uint64]*content
}

// Len returns the number of moments at which the power can fail: Cut accepts 0 to Len.
func (l *Log) Len() int { return len(l.operations) }

// Output returns all that the process has written to its standard output, one string for each
// write.
func (l *Log) Output() []string {
	var said []string
	for _, op := range l.operations {
		if op.kind == output {
			said = append(said, string(op.data))
		}
	}
	return said
}

// OutputBefore returns how many strings of Output were written before a moment.
func (l *Log) OutputBefore(moment int) int { return countKind(l.operations[:moment], output) }

// Writes counts the writes in the log.
func (l *Log) Writes() int { return countKind(l.operations, write) }

// Syncs counts the syncs of files in the log.
func (l *Log) Syncs() int { return countKind(l.operations, sync) }

func countKind(operations []operation, wanted kind) int {
	n := 0
	for _, op := range operations {
		if op.kind == wanted {
			n++
		}
	}
	return n
}

// Cut returns one possible disk after a power failure at a moment. The function draw returns a
// random number below n. Each sector written since its file's last sync may have any version, and
// so may sizes and names.
func (l *Log) Cut(moment int, draw func(n int) int) Disk {
	past := l.operations[:moment]
	safe, names := map[uint64]int{}, 0
	for _, op := range past {
		switch op.kind {
		case sync:
			safe[op.file] = op.covers
		case syncDir:
			names = op.covers
		case write, resize, setName, output:
		}
	}
	if left := len(past) - names; left > 0 {
		names += draw(left + 1)
	}
	disk := l.before.clone()
	sizes := map[uint64][]int64{}
	for at, op := range past {
		switch {
		case op.kind == setName && at < names:
			disk.rename(op)
		case op.kind != write && op.kind != resize:
		case at < safe[op.file]:
			disk.file(op.file).apply(op)
		default:
			file := disk.file(op.file)
			if sizes[op.file] == nil {
				sizes[op.file] = []int64{file.size}
			}
			last := sizes[op.file][len(sizes[op.file])-1]
			file.tear(op, draw)
			sizes[op.file] = append(sizes[op.file], op.sizeAfter(last))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(sizes)) {
		disk.file(id).resize(sizes[id][draw(len(sizes[id]))])
	}
	return disk
}
