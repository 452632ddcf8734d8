package verbs

import (
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podfall/podfall/services/apiserver/registry"
)

// nameLetters are the letters of generated names; they spell no words.
const nameLetters = "bcdfghjklmnpqrstvwxz2456789"

func (a *API) generatedName(base string) string {
	var suffix [registry.NameSuffixLength]byte
	a.readEntropy(suffix[:])
	for i, b := range suffix {
		suffix[i] = nameLetters[int(b)%len(nameLetters)]
	}
	return registry.GenerateName(base, string(suffix[:]))
}

// NewUID returns a random UUID of version 4.
func (a *API) NewUID() types.UID {
	var b [16]byte
	a.readEntropy(b[:])
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return types.UID(fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

func (a *API) readEntropy(into []byte) {
	if _, err := io.ReadFull(a.Entropy, into); err != nil {
		panic(fmt.Sprintf("verbs: no entropy: %v", err)) // without it two objects could share a UID
	}
}
