package pki_test

import (
	"bytes"
	"encoding/pem"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/pki"
)

// FuzzPair: for any authority that is read, a valid one signs a server certificate that clients
// accept at that time, and stays valid. For an invalid one, the error names the part that is wrong.
func FuzzPair(f *testing.F) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	authority, err := pki.NewAuthority("podfall", now)
	if err != nil {
		f.Fatal(err)
	}
	sound, err := authority.IssueServer("gateway", pki.Loopback(), now)
	if err != nil {
		f.Fatal(err)
	}
	for _, days := range []int16{0, -1, 3649, 3651} {
		f.Add(authority.Certificate, authority.Key, uint16(0), []byte{}, days)
	}
	f.Add(sound.Certificate, sound.Key, uint16(0), []byte{}, int16(0))
	f.Add(authority.Certificate, sound.Key, uint16(0), []byte{}, int16(0))
	f.Add(authority.Certificate[:len(authority.Certificate)/2], authority.Key, uint16(0), []byte{}, int16(0))
	block, _ := pem.Decode(authority.Certificate)
	for from, to := range map[string]string{ // key usage in DER: not for signing, and an unknown extension
		"\x03\x02\x02\x04": "\x03\x02\x07\x80", "\x06\x03\x55\x1d\x0f": "\x06\x03\x55\x1d\x7f",
	} {
		f.Add(authority.Certificate, authority.Key, uint16(bytes.Index(block.Bytes, []byte(from))), []byte(to), int16(0))
	}
	f.Fuzz(func(t *testing.T, certificate, key []byte, at uint16, text []byte, days int16) {
		now := now.AddDate(0, 0, int(days))
		pair := pki.Pair{Certificate: damaged(certificate, int(at), text), Key: key}
		err := pair.CheckAuthority(now)
		if again := pair.CheckAuthority(now); (err == nil) != (again == nil) || err != nil && err.Error() != again.Error() {
			t.Errorf("%v, and then %v", err, again)
		}
		server, cannot := pair.IssueServer("gateway", pki.Loopback(), now)
		if err == nil {
			if err := errors.Join(cannot, pair.Verify(server, pki.Loopback(), now)); err != nil {
				t.Errorf("what is good signs what is not: %v\n%s", err, pair.Certificate)
			}
			return
		}
		if !errors.Is(err, pki.ErrInvalid) || !namesCause(err) {
			t.Errorf("%v does not say what is wrong", err)
		}
		if cannot != nil && !strings.Contains(cannot.Error(), "sign for gateway: ") {
			t.Errorf("%v does not say for whom", cannot)
		}
		if refused := pair.Verify(sound, pki.Loopback(), now); refused != nil && !errors.Is(refused, pki.ErrInvalid) {
			t.Errorf("%v does not say that it is refused", refused)
		}
	})
}

// damaged is a certificate with text in its DER; as it is without text, or where it is none.
func damaged(certificate []byte, at int, text []byte) []byte {
	block, _ := pem.Decode(certificate)
	if block == nil || len(block.Bytes) == 0 || len(text) == 0 {
		return certificate
	}
	copy(block.Bytes[at%len(block.Bytes):], text)
	return pem.EncodeToMemory(block)
}

// namesCause reports whether an error names the cause behind the common prefix.
func namesCause(err error) bool {
	cause, found := strings.CutPrefix(err.Error(), pki.ErrInvalid.Error()+": ")
	return found && slices.ContainsFunc([]string{
		"certificate: ", "key: ", "its key ", "it has expired at ", "it is good from ", "x509: ",
	}, func(what string) bool { return strings.HasPrefix(cause, what) && cause != what })
}
