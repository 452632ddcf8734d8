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

// Continue says where the next page of a list begins (WCH-05).
type Continue struct {
	// Revision is that of the first page, at which every page is read. AnyRevision means the
	// newest, for a list that need not be consistent.
	Revision int64
	// After is the last object of the previous page, as "namespace/name", or "/name" for a
	// cluster-scoped kind.
	After string
}

// AnyRevision in a [Continue] continues at the newest revision, without consistency.
const AnyRevision = -1

// token is a Continue as clients see it: JSON in URL-safe base64, with upstream's fields. The start
// key is relative to the listed namespace and ends in a zero byte, so that it sorts right after the
// last object read.
type token struct {
	Version  string `json:"v"`
	Revision int64  `json:"rv"`
	Start    string `json:"start"`
}

const (
	tokenVersion = "meta.k8s.io/v1"
	tokenEnd     = "\x00"
)

// EncodeContinue returns c as the token of a list of kind in namespace ("" for all).
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

// DecodeContinue reads the token of a list of kind in namespace. The error is a 400. A token comes
// from the client, so it is checked to name nothing outside of the listed namespace.
func DecodeContinue(kind kinds.Kind, namespace, continued string) (Continue, error) {
	data, err := base64.RawURLEncoding.DecodeString(continued)
	if err != nil {
		return Continue{}, invalidToken(": %v", err)
	}
	var t token
	if err := json.Unmarshal(data, &t); err != nil {
		return Continue{}, invalidToken(": %v", err)
	}
	start := strings.TrimPrefix(strings.TrimSuffix(t.Start, tokenEnd), "/")
	switch {
	case t.Version != tokenVersion:
		return Continue{}, invalidToken(": server does not recognize this encoded version %s", t.Version)
	case t.Revision == 0 || t.Revision < AnyRevision:
		return Continue{}, invalidToken(": incorrect encoded start resourceVersion (version meta.k8s.io/v1)")
	case start == "":
		return Continue{}, invalidToken(": encoded start key empty (version meta.k8s.io/v1)")
	case strings.Contains(start, tokenEnd) || path.Clean("/"+start) != "/"+start:
		return Continue{}, invalidToken(": %s", t.Start)
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
	return Continue{}, invalidToken(": %s", t.Start)
}

func invalidToken(format string, args ...any) error {
	return apierrors.NewBadRequest("invalid continue token: continue key is not valid" + fmt.Sprintf(format, args...))
}
