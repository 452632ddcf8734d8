package store

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// fuse blows when bbolt meets a page that it cannot use while the store is open. bbolt then panics,
// or faults on memory that the file no longer backs, and may leave its locks taken. A blown fuse
// stops all further use of bbolt, even closing it.
type fuse struct {
	once  sync.Once
	blown chan struct{}
	err   error // written before blown is closed
}

func newFuse() *fuse { return &fuse{blown: make(chan struct{})} }

// guard runs fn unless the fuse has blown, and returns a *DamageError when it blows.
func (f *fuse) guard(path string, fn func() error) (err error) {
	select {
	case <-f.blown:
		return f.err
	default:
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = &DamageError{Path: path, Record: "a page", What: fmt.Sprint(fault)}
			f.once.Do(func() {
				f.err = err
				close(f.blown)
			})
		}
	}()
	return fn()
}

func (f *fuse) isBlown() bool {
	select {
	case <-f.blown:
		return true
	default:
		return false
	}
}
