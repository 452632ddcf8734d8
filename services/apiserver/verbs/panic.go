package verbs

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic during a request.
type PanicError struct {
	// Cause is the panic's value.
	Cause any
	// Stack is the stack of the goroutine.
	Stack []byte
}

// Error names the cause without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Cause) }

// RecoverPanic runs do, and returns a *PanicError if do panics, so that a bug ends one request and
// not the process. It must be called on each goroutine of a request.
func RecoverPanic(do func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = &PanicError{Cause: cause, Stack: debug.Stack()}
		}
	}()
	return do()
}
