package proto

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Verb is a verb of the Kubernetes API.
type Verb string

// The verbs of the API.
const (
	VerbGet              Verb = "get"
	VerbList             Verb = "list"
	VerbWatch            Verb = "watch"
	VerbCreate           Verb = "create"
	VerbUpdate           Verb = "update"
	VerbPatch            Verb = "patch"
	VerbDelete           Verb = "delete"
	VerbDeleteCollection Verb = "deletecollection"
)

// Verbs lists every verb.
func Verbs() []Verb {
	return []Verb{
		VerbGet, VerbList, VerbWatch, VerbCreate, VerbUpdate, VerbPatch, VerbDelete, VerbDeleteCollection,
	}
}

// The roots of podfall's subjects.
//
//	api.<identity>.<verb>.<resource>[/<subresource>].<namespace>.<name>   requests to the apiserver
//	r.<requester>.<responder>.<token>                                      answers, and the credits for them
//	watch.cluster.<group>  watch.node.<name>.<group>                       the live events of a watch group
//	node.<name>.<verb>                                                     what a kubelet serves
//	cri.<Method>                                                           what a runtime serves, on the node bus
//	mgmt.board  mgmt.board.get  mgmt.board.set                             the shared fault state: publish, get, set
//	mgmt.inspect.<process>                                                 inspections of a process
const (
	RootAPI   = "api"
	RootReply = "r"
	RootWatch = "watch"
	RootNode  = "node"
	RootCRI   = "cri"
	RootMgmt  = "mgmt"
)

// APISubject is a parsed request subject.
type APISubject struct {
	Identity Identity
	Verb     Verb
	// Resource is a group resource: "pods", "deployments.apps".
	Resource    string
	Subresource string
	Namespace   string
	Name        string
}

// String builds the subject.
func (s APISubject) String() string {
	resource := escape(s.Resource)
	if s.Subresource != "" {
		resource += "/" + escape(s.Subresource)
	}
	return strings.Join([]string{
		RootAPI, s.Identity.Token(), escape(string(s.Verb)), resource, escape(s.Namespace), escape(s.Name),
	}, ".")
}

// ErrSubject is the cause of every refused subject.
var ErrSubject = errors.New("not a request subject")

// ParseAPISubject is the inverse of [APISubject.String]. Its errors wrap [ErrSubject] and name the
// invalid part.
func ParseAPISubject(subject string) (APISubject, error) {
	tokens := strings.Split(subject, ".")
	if len(tokens) != 6 || tokens[0] != RootAPI {
		return APISubject{}, fmt.Errorf("%w: %q: want api.<identity>.<verb>.<resource>.<namespace>.<name>", ErrSubject, subject)
	}
	id, err := ParseIdentity(tokens[1])
	if err != nil {
		return APISubject{}, fmt.Errorf("%w: %w", ErrSubject, err)
	}
	resource, subresource, _ := strings.Cut(tokens[3], "/")
	parts := []string{tokens[2], resource, subresource, tokens[4], tokens[5]}
	for i, part := range parts {
		if parts[i], err = unescape(part); err != nil {
			return APISubject{}, fmt.Errorf("%w: %q: %w", ErrSubject, part, err)
		}
	}
	return APISubject{
		Identity: id, Verb: Verb(parts[0]), Resource: parts[1], Subresource: parts[2], Namespace: parts[3], Name: parts[4],
	}, nil
}

// ReplySubject carries an answer from responder to requester under a token that the requester
// chose. With the two exchanged, it carries the credits for an answer in parts.
func ReplySubject(requester, responder Identity, token string) string {
	return strings.Join([]string{RootReply, requester.Token(), responder.Token(), token}, ".")
}

// WatchScope determines which events a watcher receives. Watchers of one class with equal scopes
// form a group and share one live subject.
type WatchScope struct {
	// Resource is a group resource: "pods", "deployments.apps".
	Resource string
	// Namespace is empty for all.
	Namespace string
	// LabelSelector and FieldSelector are in the canonical form of labels.Selector and
	// fields.Selector.
	LabelSelector string
	FieldSelector string
}

// WatchSubject returns the live subject of a watch group. Both sides compute it, so that a watcher
// can subscribe before its request.
func WatchSubject(class string, scope WatchScope) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{
		scope.Resource, scope.Namespace, scope.LabelSelector, scope.FieldSelector,
	}, "\x00")))
	return RootWatch + "." + class + "." + hex.EncodeToString(sum[:12])
}

// NodeSubject returns a subject that the kubelet of a node serves: verb is "logs", "exec" or
// "inspect".
func NodeSubject(node, verb string) string {
	return strings.Join([]string{RootNode, escape(node), verb}, ".")
}

// CRISubject returns the subject of a runtime method on the node bus.
func CRISubject(method string) string { return RootCRI + "." + method }

// The subjects of the shared fault state.
const (
	MgmtFaultState    = RootMgmt + ".board"
	MgmtFaultStateGet = RootMgmt + ".board.get"
	MgmtFaultStateSet = RootMgmt + ".board.set"
)

// MgmtInspect returns the subject of inspections of a process.
func MgmtInspect(process string) string { return RootMgmt + ".inspect." + escape(process) }

// emptyToken represents an empty part of a subject.
const emptyToken = "_"

// escape converts any text to one subject token. Kubernetes names and identities never contain a
// percent sign, so that the escaping is unambiguous.
func escape(text string) string {
	if text == "" {
		return emptyToken
	}
	if text != emptyToken && !strings.ContainsFunc(text, needsEscape) {
		return text
	}
	const digits = "0123456789ABCDEF"
	escaped := make([]byte, 0, 2*len(text)+1)
	for _, c := range []byte(text) {
		if needsEscape(rune(c)) || text == emptyToken {
			escaped = append(escaped, '%', digits[c>>4], digits[c&0xf])
		} else {
			escaped = append(escaped, c)
		}
	}
	return string(escaped)
}

// needsEscape reports whether r has a meaning to NATS or to escape itself.
func needsEscape(r rune) bool {
	switch r {
	case '.', '*', '>', '%', '/':
		return true
	}
	return r <= ' ' || r >= 0x7f
}

var errEscape = errors.New("a percent sign must be followed by two hexadecimal digits")

func unescape(token string) (string, error) {
	if token == emptyToken {
		return "", nil
	}
	text, err := url.PathUnescape(token)
	if err != nil {
		return "", errEscape
	}
	return text, nil
}
