// Package directory knows every kind that the cluster serves now: the built-in ones and
// those that CustomResourceDefinitions add.
package directory
