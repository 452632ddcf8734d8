// Package kubeconfig writes how a client finds a cluster's gateway, as a kubeconfig of
// its own or among the entries of another one. It is pure: files are the caller's.
//
// A person's kubeconfig names clusters that matter more than ours. [Merge] touches no
// entry that it has not made, which it knows by the extension podfall.io, and no line
// that it need not; it never makes a cluster the current one unless asked to.
package kubeconfig

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	clientcmd "k8s.io/client-go/tools/clientcmd/api/v1"
	"sigs.k8s.io/yaml"
)

// Prefix opens the names of all our contexts, so that nobody takes one for a real
// cluster's.
const Prefix = "podfall-"

// extension marks an entry as ours.
const extension = "podfall.io"

// Access is how to reach one cluster.
type Access struct {
	// Cluster is the cluster's name; context, cluster and user are called
	// podfall-<Cluster>.
	Cluster string
	// URL of the gateway, such as https://127.0.0.1:40001.
	URL string
	// Authority is the PEM of the certificate that has signed the gateway's.
	Authority []byte
	// Token is what the gateway knows its clients by. It is secret.
	Token string
}

// Context is the name of the context, and of everything else of it.
func (a Access) Context() string { return Prefix + a.Cluster }

// File is a kubeconfig that knows the one cluster, and has it as its current one.
func (a Access) File() ([]byte, error) {
	config := clientcmd.Config{
		APIVersion: "v1", Kind: "Config", CurrentContext: a.Context(),
		Clusters: []clientcmd.NamedCluster{a.cluster()}, Contexts: []clientcmd.NamedContext{a.context()},
		AuthInfos: []clientcmd.NamedAuthInfo{a.user()},
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("write kubeconfig: %w", err)
	}
	return data, nil
}

func (a Access) cluster() clientcmd.NamedCluster {
	return clientcmd.NamedCluster{Name: a.Context(), Cluster: clientcmd.Cluster{
		Server: a.URL, CertificateAuthorityData: a.Authority, Extensions: mark(),
	}}
}

func (a Access) context() clientcmd.NamedContext {
	return clientcmd.NamedContext{Name: a.Context(), Context: clientcmd.Context{
		Cluster: a.Context(), AuthInfo: a.Context(), Extensions: mark(),
	}}
}

func (a Access) user() clientcmd.NamedAuthInfo {
	return clientcmd.NamedAuthInfo{Name: a.Context(), AuthInfo: clientcmd.AuthInfo{Token: a.Token, Extensions: mark()}}
}

func mark() []clientcmd.NamedExtension {
	return []clientcmd.NamedExtension{{Name: extension, Extension: runtime.RawExtension{Raw: []byte(`{"provider":"podfall"}`)}}}
}

// entry is one of ours, as it stands in a list of a kubeconfig.
type entry struct {
	// list is "clusters", "contexts" or "users".
	list string
	name string
	// text is a list of one, as YAML without indentation.
	text []byte
}

func (a Access) entries() ([]entry, error) {
	entries := make([]entry, 0, 3)
	for _, one := range []struct {
		list  string
		value any
	}{{"clusters", a.cluster()}, {"contexts", a.context()}, {"users", a.user()}} {
		text, err := yaml.Marshal([]any{one.value})
		if err != nil {
			return nil, fmt.Errorf("write kubeconfig: %w", err)
		}
		entries = append(entries, entry{list: one.list, name: a.Context(), text: text})
	}
	return entries, nil
}
