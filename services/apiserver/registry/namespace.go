package registry

// namespaceStrategy is the strategy of Namespaces.
type namespaceStrategy struct{ generic }
