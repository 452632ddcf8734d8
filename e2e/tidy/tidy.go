// Package tidy holds the rules of the repository that a linter does not know, as tests:
// what its folders may contain, how wide a struct may be, who may start a goroutine,
// and that every link in the documents leads somewhere.
package tidy
