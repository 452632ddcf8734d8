// Package kubeconfig writes how a client finds a cluster's gateway, as a separate kubeconfig or as
// entries in an existing one. It is pure: the caller reads and writes the files.
//
// A user's kubeconfig names clusters that matter more than podfall's. [Merge] changes only its own
// entries, which it recognizes by the extension podfall.io, and as few lines as possible. It never
// makes a cluster the current one unless asked to.
package kubeconfig

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// Prefix begins the names of all podfall contexts, to distinguish them from real clusters.
const Prefix = "podfall-"

// extension marks an entry as podfall's.
const extension = "podfall.io"

// Access is how to reach one cluster.
type Access struct {
	// Cluster is the cluster's name. Context, cluster and user are called podfall-<Cluster>.
	Cluster string
	// URL of the gateway, for example https://127.0.0.1:40001.
	URL string
	// Authority is the PEM certificate that signed the gateway's certificate.
	Authority []byte
	// Token authenticates clients to the gateway. It is secret.
	Token string
}

// Context returns the name of the context, the cluster and the user.
func (a Access) Context() string { return Prefix + a.Cluster }

// File returns a kubeconfig with only this cluster, as the current one.
func (a Access) File() ([]byte, error) {
	config := clientcmd.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: a.Context(),
		Clusters: []clientcmd.NamedCluster{a.clusterEntry()}, Contexts: []clientcmd.NamedContext{a.contextEntry()},
		AuthInfos: []clientcmd.NamedAuthInfo{a.userEntry()},
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return data, nil
}

func (a Access) clusterEntry() clientcmd.NamedCluster {
	return clientcmd.NamedCluster{Name: a.Context(), Cluster: clientcmd.Cluster{
		Server: a.URL, CertificateAuthorityData: a.Authority, Extensions: podfallExtensions(),
	}}
}

func (a Access) contextEntry() clientcmd.NamedContext {
	return clientcmd.NamedContext{Name: a.Context(), Context: clientcmd.Context{
		Cluster: a.Context(), AuthInfo: a.Context(), Extensions: podfallExtensions(),
	}}
}

func (a Access) userEntry() clientcmd.NamedAuthInfo {
	return clientcmd.NamedAuthInfo{Name: a.Context(), AuthInfo: clientcmd.AuthInfo{Token: a.Token, Extensions: podfallExtensions()}}
}

func podfallExtensions() []clientcmd.NamedExtension {
	return []clientcmd.NamedExtension{{Name: extension, Extension: runtime.RawExtension{Raw: []byte(`{"provider":"podfall"}`)}}}
}

// entry is one podfall entry in a list of a kubeconfig.
type entry struct {
	// list is "clusters", "contexts" or "users".
	list string
	name string
	// text is a YAML list of one element, without indentation.
	text []byte
}

func (a Access) newEntries() ([]entry, error) {
	entries := make([]entry, 0, 3)
	for _, one := range []struct {
		list  string
		value any
	}{{"clusters", a.clusterEntry()}, {"contexts", a.contextEntry()}, {"users", a.userEntry()}} {
		text, err := yaml.Marshal([]any{one.value})
		if err != nil {
			return nil, fmt.Errorf("write kubeconfig: %w", err)
		}
		entries = append(entries, entry{list: one.list, name: a.Context(), text: text})
	}
	return entries, nil
}
