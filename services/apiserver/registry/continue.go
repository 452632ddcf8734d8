package registry

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/podfall/podfall/proto/kinds"
)

// Continue says where a list in pages goes on (WCH-05).
type Continue struct {
	// Revision is that of the first page, at which every page is read; -1 means the
	// newest, for a list that no longer has to be consistent.
	Revision int64
	// After is the last object that has been read, as "namespace/name", or "/name" for
	// a cluster-scoped kind.
	After string
}

// AnyRevision in a [Continue] gives up consistency for going on at all.
const AnyRevision = -1

// token is a Continue as clients see it: JSON in URL-safe base64, whose fields are
// upstream's. The start key is relative to what is listed and ends in a zero byte, so that
// it sorts right after the last object read.
type token struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	Start    string `json:"start"`
}

const (
	tokenVersion = "meta.k8s.io/v1"
	tokenEnd     = "\x00"
)

// EncodeContinue is c as the token of a list of kind in namespace ("" for all).
func EncodeContinue(kind kinds.Kind, namespace string, c Continue) string {
	start := c.After
	if namespace != "" || !kind.Namespaced {
		_, start, _ = strings.Cut(c.After, "/")
	}
	data, err := json.Marshal(token{Version: tokenVersion, Revision: c.Revision, Start: start + tokenEnd})
	if err != nil {
		panic(err) // two strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(data)
}

// DecodeContinue reads the token of a list of kind in namespace. The error is a 400. A
// token is no secret and no promise: it names nothing outside of what is listed.
func DecodeContinue(kind kinds.Kind, namespace, continued string) (Continue, error) {
	data, err := base64.RawURLEncoding.DecodeString(continued)
	if err != nil {
		return Continue{}, badToken(": %v", err)
	}
	var t token
	if err := json.Unmarshal(data, &t); err != nil {
		return Continue{}, badToken(": %v", err)
	}
	start := strings.TrimPrefix(strings.TrimSuffix(t.Start, tokenEnd), "/")
	switch {
	case t.Version != tokenVersion:
		return Continue{}, badToken(": server does not recognize this encoded version %s", t.Version)
	case t.Revision == 0 || t.Revision < AnyRevision:
		return Continue{}, badToken(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case start == "":
		return Continue{}, badToken(": encoded start key empty (version meta.k8s.io/v1)")
	case strings.Contains(start, tokenEnd) || path.Clean("/"+start) != "/"+start:
		return Continue{}, badToken(": %s", t.Start)
	}
	parts := strings.Count(start, "/") + 1
	switch {
	case kind.Namespaced && namespace == "" && parts == 2:
		return Continue{Revision: t.Revision, After: start}, nil
	case kind.Namespaced && namespace != "" && parts == 1:
		return Continue{Revision: t.Revision, After: namespace + "/" + start}, nil
	case !kind.Namespaced && parts == 1:
		return Continue{Revision: t.Revision, After: "/" + start}, nil
	}
	return Continue{}, badToken(": %s", t.Start)
}

func badToken(format string, args ...any) error {
	return apierrors.NewBadRequest("invalid continue token: continue key is not valid" + fmt.Sprintf(format, args...))
}
