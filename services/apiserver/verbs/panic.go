package verbs

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a mistake of ours that a request has come upon.
type PanicError struct {
	// Cause is what was panicked with.
	Cause any
	// Stack is where.
	Stack []byte
}

// Error names the cause without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Cause) }

// Recovered is do, which fails with a *PanicError when it panics: one request's mistake is
// not the end of the process. It has to be called on each goroutine of a request.
func Recovered(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &PanicError{Cause: cause, Stack: debug.Stack()}
		}
	}()
	return do()
}
