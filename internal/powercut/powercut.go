// Package powercut tells what a power cut may leave of a program's files. It records
// every write, truncation, name and sync of a real process, and rebuilds from that what
// a disk may hold when the power goes at any moment: all that was synced, and of
// everything since then, sector by sector, some version or other.
//
// What is assumed of a disk, and no more:
//
//   - a sector of 512 bytes is written whole or not at all; sectors in any order;
//   - fsync and fdatasync mean what they say for the bytes and the size of their file,
//     and say nothing about its name;
//   - names change in the order in which they were asked to, as in a journal, and are
//     safe once their directory was synced.
//
// The process is traced by the kernel's ptrace, so it is the same code with the same
// system calls as always, and a sync that is left out anywhere below shows.
package powercut

import (
	"maps"
	"slices"
)

// Sector is how many bytes a disk writes whole or not at all.
const Sector = 512

type kind uint8

const (
	write   kind = iota + 1
	resize       // to offset
	sync         // of a file; covers the operations before covers
	name         // path is file from now on, none when file is 0
	syncDir      // covers as for sync
	say          // data on standard output
)

// operation is one system call, in the order in which the kernel saw them. A write takes
// its place when it is asked for, a sync when it has returned.
type operation struct {
	kind   kind
	file   uint64 // inode number
	offset int64
	data   []byte
	path   string // within the directory
	gone   string // another name that it takes away
	covers int
}

// Log is what a process did to the files of one directory.
type Log struct {
	// before is the directory as it was, all of it safe.
	before     Disk
	operations []operation
}

// Disk is a directory after a power cut, or before.
type Disk struct {
	names map[string]uint64
	files map[uint64]*content
}

// Len is how many moments there are at which the power can go: Cut takes 0 to Len.
func (l *Log) Len() int { return len(l.operations) }

// Said is all that the process has written to its standard output, a string for each
// write.
func (l *Log) Said() []string {
	var said []string
	for _, op := range l.operations {
		if op.kind == say {
			said = append(said, string(op.data))
		}
	}
	return said
}

// SaidBy is how many of the strings of Said had been written at a moment.
func (l *Log) SaidBy(moment int) int { return count(l.operations[:moment], say) }

// Writes counts the writes in the log, and Syncs the syncs of files.
func (l *Log) Writes() int { return count(l.operations, write) }

// Syncs counts the syncs of files in the log.
func (l *Log) Syncs() int { return count(l.operations, sync) }

func count(operations []operation, wanted kind) int {
	n := 0
	for _, op := range operations {
		if op.kind == wanted {
			n++
		}
	}
	return n
}

// Cut is a disk that the power was cut from at a moment, drawn from all those there may
// be (draw takes a number below n): of each sector that was written since its file was synced, any version, and of the
// sizes and names as well.
func (l *Log) Cut(moment int, draw func(n int) int) Disk {
	past := l.operations[:moment]
	safe, names := map[uint64]int{}, 0
	for _, op := range past {
		switch op.kind {
		case sync:
			safe[op.file] = op.covers
		case syncDir:
			names = op.covers
		case write, resize, name, say:
		}
	}
	if left := len(past) - names; left > 0 {
		names += draw(left + 1)
	}
	disk := l.before.clone()
	sizes := map[uint64][]int64{}
	for at, op := range past {
		switch {
		case op.kind == name && at < names:
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
