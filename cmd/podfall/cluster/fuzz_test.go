package cluster

import (
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podfall/podfall/internal/pki"
	"github.com/podfall/podfall/services/bus"
)

// FuzzLoad: errors name the damaged file. Accepted options round-trip, and the arguments of each of
// their processes can be built.
func FuzzLoad(f *testing.F) {
	f.Fuzz(func(t *testing.T, text []byte) {
		l := Layout{Root: t.TempDir()}
		if err := l.createDirs(Options{}); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{l.optionsFile(), l.busAddresses(), l.gatewayAddress(), l.recordFile("kubelet/n")} {
			if err := os.WriteFile(path, text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		options, err := l.Load()
		if err != nil {
			if !strings.HasPrefix(err.Error(), l.optionsFile()+": ") {
				t.Errorf("%q: %v, want the file's name", text, err)
			}
			return
		}
		if _, err := options.Schedule(); err != nil && err.Error() == "" {
			t.Error("refused without a word")
		}
		again := reload(t, options)
		if first, second := toJSON(t, options), toJSON(t, again); first != second {
			t.Errorf("kept %s, loaded %s", first, second)
		}
		if records, err := l.Records(); err == nil && records[0].Alive() && records[0].Start == 0 {
			t.Errorf("%q names a process that runs: %+v", text, records[0])
		}
		if len(options.Nodes) < 100 {
			checkPlan(t, l, options)
		}
	})
}

// reload creates another cluster with the options and loads it.
func reload(t *testing.T, options Options) Options {
	t.Helper()
	other := Layout{Root: t.TempDir()}
	if err := other.createDirs(options); err != nil {
		t.Fatal(err)
	}
	again, err := other.Load()
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// checkPlan builds the arguments of every process of a plan.
func checkPlan(t *testing.T, l Layout, options Options) {
	t.Helper()
	members := slices.Concat(Plan(l, options)...)
	if want := 4 + 2*len(options.Nodes); len(members) != want {
		t.Errorf("%d processes, want %d", len(members), want)
	}
	for _, member := range members {
		arguments := member.Arguments(Addresses{Bus: bus.Addresses{}})
		at := slices.Index(arguments, "--pod-cidr")
		if at < 0 || member.Node == "" {
			continue
		}
		if network, err := netip.ParsePrefix(arguments[at+1]); err != nil || !network.IsValid() {
			t.Errorf("%s of %d pods a node: %v", member.Name, options.maxPods(), err)
		}
	}
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// FuzzLastLines: lastLines returns the last lines of any text, whatever their lengths, and at most
// the requested number.
func FuzzLastLines(f *testing.F) {
	f.Fuzz(func(t *testing.T, text string, length uint16, count uint8) {
		text += strings.Repeat("x", 4*int(length))
		want := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if text == "" {
			want = nil
		}
		want = want[max(len(want)-int(count), 0):]
		got := lastLines(strings.NewReader(text), int(count))
		if len(got) != len(want) {
			t.Fatalf("%d lines of %q, want %d", len(got), text, len(want))
		}
		for i := range got {
			if got[i] != strings.TrimRight(want[i], "\r") {
				t.Errorf("%q, want %q", got[i], want[i])
			}
		}
	})
}

// FuzzMakeGatewaySecrets: whatever was left of the gateway's secrets, they are valid after
// MakeGatewaySecrets, and a second call changes nothing.
func FuzzMakeGatewaySecrets(f *testing.F) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	sound := Layout{Root: f.TempDir()}
	if err := sound.MakeGatewaySecrets(now); err != nil {
		f.Fatal(err)
	}
	files := []string{authorityCertificate, authorityKey, serverCertificate, serverKey, tokenFile}
	f.Fuzz(func(t *testing.T, changed uint8, at uint16, text []byte, years uint8) {
		l := Layout{Root: t.TempDir()}
		if err := os.MkdirAll(l.gatewayDir(), 0o700); err != nil {
			t.Fatal(err)
		}
		for i, name := range files {
			data, err := os.ReadFile(filepath.Join(sound.gatewayDir(), name))
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case int(changed)%(len(files)+1) != i:
			case at == 0:
				data = text
			default:
				copy(data[int(at)%len(data):], text)
			}
			if err := os.WriteFile(filepath.Join(l.gatewayDir(), name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		now := now.AddDate(int(years), 0, 0)
		if err := l.MakeGatewaySecrets(now); err != nil {
			t.Fatal(err)
		}
		secrets, err := ReadGatewaySecrets(l.gatewayDir())
		if err != nil {
			t.Fatal(err)
		}
		authority, err := readPair(l.gatewayDir(), authorityCertificate, authorityKey)
		if err != nil || authority.CheckAuthority(now) != nil || authority.Verify(secrets.Server, pki.Loopback(), now) != nil {
			t.Errorf("made again, and not good: %v, %v, %v", err, authority.CheckAuthority(now), authority.Verify(secrets.Server, pki.Loopback(), now))
		}
		if err := l.MakeGatewaySecrets(now); err != nil {
			t.Fatal(err)
		}
		if again, err := ReadGatewaySecrets(l.gatewayDir()); err != nil || again.Token != secrets.Token || string(again.Server.Certificate) != string(secrets.Server.Certificate) {
			t.Errorf("made again although it was good (%v)", err)
		}
	})
}
