// Package podfalltest runs a whole podfall cluster inside other people's `go test`.
package podfalltest
