package kubectl

import (
	"slices"
	"strings"
)

// Verb returns the first word of a command line that is neither a flag nor the value of a global
// flag; empty if there is none.
func Verb(args []string) string {
	for i := 0; i < len(args); i++ {
		word := args[i]
		switch {
		case word == "--":
			return ""
		case !strings.HasPrefix(word, "-") || word == "-":
			return word
		case takesNext(word):
			i++
		}
	}
	return ""
}

// takesNext reports whether a word is a global flag whose value is the next word.
func takesNext(word string) bool {
	return slices.Contains([]string{
		"--data", "-data", "-n", "--namespace", "--context", "--cluster", "--user", "-s", "--server", "--kubeconfig", "--kuberc",
		"--token", "--as", "--as-group", "--as-uid", "--as-user-extra", "--request-timeout", "--cache-dir",
		"--certificate-authority", "--client-certificate", "--client-key", "--tls-server-name", "--proxy-url",
		"--username", "--password", "--profile", "--profile-output", "-v", "--v", "--vmodule", "--log-flush-frequency",
	}, word)
}

// NamesCluster reports whether a command line says itself which cluster it is about: kubectl
// reads the user's kubeconfig then.
func NamesCluster(args []string) bool {
	for _, word := range args {
		if word == "--" {
			return false
		}
		name, _, _ := strings.Cut(word, "=")
		if slices.Contains([]string{"--kubeconfig", "--context", "--cluster", "--user", "--server", "-s"}, name) {
			return true
		}
	}
	return false
}

// HasFlag reports whether a flag stands on a command line, with its value joined to it or not.
func HasFlag(args []string, flag string) bool {
	for _, word := range args {
		if word == "--" {
			return false
		}
		if name, _, _ := strings.Cut(word, "="); name == flag {
			return true
		}
	}
	return false
}
