package powercut

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"unsafe"
)

// Constants of ptrace(2) and wait(2) that package syscall lacks.
const (
	ptraceGetSyscallInfo = 0x420e
	ptraceExitKill       = 0x100000
	syscallStop          = syscall.SIGTRAP | 0x80
	infoEntry            = 1
	infoExit             = 2
	ownThreadsOnly       = 0x20000000 // __WNOTHREAD
)

// Command is the process to record.
type Command struct {
	// Args are the program's path and its arguments.
	Args []string
	Env  []string
	// Dir is the directory whose files are recorded. The process must use the same spelling in
	// absolute paths. No other process may write to it meanwhile.
	Dir string
}

// call is a system call of a thread, from its entry to its exit.
type call struct {
	number uint64
	args   [6]uint64
	// at is the number of operations recorded before its entry.
	at int
}

type recorder struct {
	dir    string
	memory *os.File
	main   int
	calls  map[int]call // by thread
	// files maps inodes to the numbers in the log, for inodes with a name: file systems reuse the
	// inode numbers of deleted files.
	files map[uint64]uint64
	names map[string]uint64 // inodes
	log   *Log
}

// Record runs the command, which must succeed, and returns what it did to the files of its
// directory. Its standard output is recorded in the log.
func Record(cmd Command) (log *Log, err error) {
	before, err := readDisk(cmd.Dir)
	if err != nil {
		return nil, err
	}
	// Only the thread that started a process may trace it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	pid, err := syscall.ForkExec(cmd.Args[0], cmd.Args, &syscall.ProcAttr{
		Env: cmd.Env, Files: []uintptr{null.Fd(), null.Fd(), os.Stderr.Fd()},
		Sys: &syscall.SysProcAttr{Ptrace: true, Pdeathsig: syscall.SIGKILL},
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Args[0], err)
	}
	r := &recorder{
		dir: cmd.Dir, main: pid, calls: map[int]call{},
		files: map[uint64]uint64{}, names: before.clone().names, log: &Log{before: before},
	}
	for id := range before.files {
		r.files[id] = id
	}
	defer func() { _ = r.memory.Close() }() // closing a nil file returns an error
	if err = r.waitForStart(); err == nil {
		err = r.traceThreads()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("trace %s: %w", cmd.Args[0], err), syscall.Kill(pid, syscall.SIGKILL))
	}
	return r.log, nil
}

// readDisk returns the content of the directory.
func readDisk(dir string) (Disk, error) {
	disk := Disk{names: map[string]uint64{}}.clone()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return disk, err
	}
	for _, entry := range entries {
		path := filepath.Join(dir, entry.Name())
		data, err := os.ReadFile(path)
		if err != nil {
			return disk, err
		}
		id, _, err := inode(path)
		if err != nil {
			return disk, err
		}
		disk.rename(operation{path: entry.Name(), file: id})
		disk.file(id).write(0, data)
	}
	return disk, nil
}

// inode returns a file's inode number, and whether it is a directory.
func inode(path string) (uint64, bool, error) {
	var stat syscall.Stat_t
	if err := syscall.Stat(path, &stat); err != nil {
		return 0, false, err
	}
	return stat.Ino, stat.Mode&syscall.S_IFMT == syscall.S_IFDIR, nil
}

// waitForStart waits for the process to stop before its first instruction.
func (r *recorder) waitForStart() error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(r.main, &status, syscall.WALL, nil); err != nil {
		return err
	}
	const options = syscall.PTRACE_O_TRACESYSGOOD | syscall.PTRACE_O_TRACECLONE | ptraceExitKill
	if err := syscall.PtraceSetOptions(r.main, options); err != nil {
		return err
	}
	memory, err := os.Open(fmt.Sprintf("/proc/%d/mem", r.main))
	if err != nil {
		return err
	}
	r.memory = memory // closed when Record returns
	return syscall.PtraceSyscall(r.main, 0)
}

// traceThreads continues the threads from each stop to the next until the process ends.
func (r *recorder) traceThreads() error {
	known := map[int]bool{r.main: true}
	for {
		var status syscall.WaitStatus
		thread, err := syscall.Wait4(-1, &status, syscall.WALL|ownThreadsOnly, nil)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		switch ended := status.Exited() || status.Signaled(); {
		case ended && thread == r.main && status.ExitStatus() != 0:
			return fmt.Errorf("it ended with %d, signal %d", status.ExitStatus(), status.Signal())
		case ended && thread == r.main:
			return nil
		case ended:
			continue
		}
		if err := r.resumeThread(thread, status.StopSignal(), known[thread]); err != nil {
			return err
		}
		known[thread] = true
	}
}

// resumeThread continues a stopped thread. It delivers the signal that stopped the thread, unless
// tracing caused it.
func (r *recorder) resumeThread(thread int, signal syscall.Signal, known bool) error {
	switch {
	case signal == syscallStop:
		signal = 0
		if err := r.recordStop(thread); err != nil {
			return err
		}
	case signal == syscall.SIGTRAP, signal == syscall.SIGSTOP && !known:
		signal = 0
	}
	if err := syscall.PtraceSyscall(thread, int(signal)); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// recordStop records the system call that a thread enters or leaves.
func (r *recorder) recordStop(thread int) error {
	var info [88]byte
	_, _, errno := syscall.RawSyscall6(syscall.SYS_PTRACE, ptraceGetSyscallInfo, uintptr(thread),
		uintptr(len(info)), uintptr(unsafe.Pointer(&info)), 0, 0)
	if errors.Is(errno, syscall.ESRCH) {
		return nil
	}
	if errno != 0 {
		return fmt.Errorf("ask for a system call: %w", errno)
	}
	word := func(n int) uint64 { return binary.NativeEndian.Uint64(info[24+8*n:]) }
	switch info[0] {
	case infoEntry:
		c := call{number: word(0), at: len(r.log.operations)}
		for i := range c.args {
			c.args[i] = word(1 + i)
		}
		r.calls[thread] = c
		return r.recordEntry(c)
	case infoExit:
		c := r.calls[thread]
		delete(r.calls, thread)
		if failed := info[32] != 0; failed {
			return nil
		}
		return r.recordExit(c)
	}
	return nil
}

func (r *recorder) appendOperation(op operation) { r.log.operations = append(r.log.operations, op) }

// recordEntry records effects that are possible from the entry of the call on.
func (r *recorder) recordEntry(c call) error {
	switch c.number {
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64:
		op := operation{kind: output, data: make([]byte, c.args[2])}
		if c.number == syscall.SYS_PWRITE64 {
			op.kind, op.offset = write, int64(c.args[3])
			id, _, here := r.resolveDescriptor(c.args[0])
			if !here {
				return nil
			}
			op.file = id
		} else if c.args[0] != 1 {
			_, _, here := r.resolveDescriptor(c.args[0])
			if here {
				return errors.New("it writes to a file without a position, which is not understood")
			}
			return nil
		}
		if _, err := r.memory.ReadAt(op.data, int64(c.args[1])); err != nil {
			return fmt.Errorf("read what it writes: %w", err)
		}
		r.appendOperation(op)
	case syscall.SYS_FTRUNCATE:
		if id, _, here := r.resolveDescriptor(c.args[0]); here {
			r.appendOperation(operation{kind: resize, file: id, offset: int64(c.args[1])})
		}
	}
	return nil
}

// recordExit records effects that are certain only after the call has returned.
func (r *recorder) recordExit(c call) error {
	switch c.number {
	case syscall.SYS_FSYNC, syscall.SYS_FDATASYNC:
		id, dir, here := r.resolveDescriptor(c.args[0])
		switch {
		case dir && here:
			r.appendOperation(operation{kind: syncDir, covers: c.at})
		case here:
			r.appendOperation(operation{kind: sync, file: id, covers: c.at})
		}
	case syscall.SYS_OPENAT:
		if c.args[2]&syscall.O_CREAT != 0 {
			return r.recordName(c.args[1])
		}
	case syscall.SYS_LINKAT:
		return r.recordName(c.args[3])
	case syscall.SYS_RENAMEAT:
		return r.recordRename(c.args[1], c.args[3])
	case syscall.SYS_UNLINKAT:
		return r.recordName(c.args[1])
	}
	return nil
}

// resolveDescriptor returns the inode behind a descriptor of the process, whether it is a
// directory, and whether it is the recorded directory or in it.
func (r *recorder) resolveDescriptor(number uint64) (id uint64, dir, here bool) {
	link := fmt.Sprintf("/proc/%d/fd/%d", r.main, number)
	path, err := os.Readlink(link)
	if err != nil || path != r.dir && filepath.Dir(path) != r.dir {
		return 0, false, false
	}
	id, dir, err = inode(link)
	return r.files[id], dir, err == nil
}

// readPath returns the path at an address, relative to the directory; "" if it is elsewhere.
func (r *recorder) readPath(address uint64) (string, error) {
	text := make([]byte, 4096)
	n, _ := r.memory.ReadAt(text, int64(address)) // the read may stop at the end of a mapping
	path, _, ended := strings.Cut(string(text[:n]), "\x00")
	if !ended {
		return "", errors.New("read a path: it has no end")
	}
	if filepath.Dir(path) != r.dir {
		return "", nil
	}
	return filepath.Base(path), nil
}

// recordName records which file the path at the address refers to now.
func (r *recorder) recordName(address uint64) error {
	short, err := r.readPath(address)
	if err != nil || short == "" {
		return err
	}
	id, _, err := inode(filepath.Join(r.dir, short))
	switch {
	case errors.Is(err, syscall.ENOENT):
		delete(r.names, short)
		r.appendOperation(operation{kind: setName, path: short})
		return nil
	case err != nil:
		return err
	}
	if !slices.Contains(slices.Collect(maps.Values(r.names)), id) {
		r.files[id] = id + uint64(len(r.log.operations)+1)<<48
	}
	r.names[short] = id
	r.appendOperation(operation{kind: setName, path: short, file: r.files[id]})
	return nil
}

// recordRename records a rename, which also removes the old name.
func (r *recorder) recordRename(from, to uint64) error {
	if err := r.recordName(to); err != nil {
		return err
	}
	short, err := r.readPath(from)
	if err != nil {
		return err
	}
	delete(r.names, short)
	r.log.operations[len(r.log.operations)-1].oldPath = short
	return nil
}
