// Package gateway is the cluster's HTTPS door: it translates between the Kubernetes
// REST API and the bus, and decides nothing.
package gateway
