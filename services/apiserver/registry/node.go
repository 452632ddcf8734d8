package registry

// nodeStrategy is the strategy of Nodes.
type nodeStrategy struct{ generic }
