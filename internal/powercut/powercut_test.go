//go:build linux

package powercut

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const childEnv = "POWERCUT_TEST_CHILD"

// A process that makes a file under another name and is recorded doing so.
func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		if err := runProgram(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func runProgram(path string) error {
	file, err := os.Create(path + ".new")
	if err != nil {
		return err
	}
	step := func(then error) {
		if err == nil {
			err = then
		}
	}
	put := func(letter string, at int64) {
		_, failed := file.WriteAt(bytes.Repeat([]byte(letter), 3*Sector), at)
		step(failed)
	}
	put("a", 0)
	step(file.Sync())
	step(os.Rename(path+".new", path))
	dir, failed := os.Open(filepath.Dir(path))
	step(failed)
	step(dir.Sync())
	fmt.Println("made")
	put("b", Sector)
	put("c", 2*Sector)
	step(file.Truncate(16 * Sector))
	return err
}

func mustRecord(t *testing.T) *Log {
	t.Helper()
	dir := t.TempDir()
	log, err := Record(Command{
		Args: []string{os.Args[0]}, Dir: dir,
		Env: append(os.Environ(), childEnv+"="+filepath.Join(dir, "book")),
	})
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// What was synced is there in every image; what was not, in some, and not in others.
func TestCut(t *testing.T) {
	log := mustRecord(t)
	if said := log.Output(); len(said) != 1 || said[0] != "made\n" || log.Writes() != 3 || log.Syncs() != 1 {
		t.Fatalf("said %q, %d writes, %d syncs", said, log.Writes(), log.Syncs())
	}
	dir, seen, drafts := t.TempDir(), map[string]int{}, 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 0))
		moment := rng.IntN(log.Len() + 1)
		if err := log.Cut(moment, rng.IntN).Restore(dir); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(filepath.Join(dir, "book"))
		if err != nil {
			if log.OutputBefore(moment) != 0 {
				t.Fatalf("seed %d: made, and its name is lost", seed)
			}
			drafts++
			continue
		}
		letters := ""
		for at := 0; at < len(content); at += Sector {
			sector := content[at:min(at+Sector, len(content))]
			if len(sector) != Sector || bytes.Count(sector, sector[:1]) != Sector {
				t.Fatalf("seed %d: sector %d is torn", seed, at/Sector)
			}
			letters += string(sector[:1])
		}
		if log.OutputBefore(moment) == 1 {
			seen[letters]++
		}
	}
	if drafts == 0 {
		t.Error("a name that was not synced is always there")
	}
	for letters := range seen {
		if !strings.HasPrefix(letters, "a") {
			t.Errorf("what was synced is lost: %q", letters)
		}
	}
	for _, possible := range []string{"aaa", "aab", "abc", "abbb", "abcc", "aabcc", "aac\x00c", "abccc" + string(make([]byte, 11))} {
		if seen[possible] == 0 {
			t.Errorf("%q was never drawn, of %v", possible, seen)
		}
	}
}

// Disks with one hash hold the same, and those that hold the same have one hash.
func TestHash(t *testing.T) {
	log, dir, seed := mustRecord(t), t.TempDir(), maphash.MakeSeed()
	held, hashes := map[uint64]string{}, map[string]uint64{}
	for number := range uint64(1000) {
		rng := rand.New(rand.NewPCG(number, 2))
		disk := log.Cut(rng.IntN(log.Len()+1), rng.IntN)
		if err := disk.Restore(dir); err != nil {
			t.Fatal(err)
		}
		hash, holds := disk.Hash(seed), ""
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range entries {
			data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			holds += entry.Name() + ":" + string(data) + ";"
		}
		if other, seen := held[hash]; seen && other != holds {
			t.Fatalf("%q and %q have one hash", other, holds)
		}
		if other, seen := hashes[holds]; seen && other != hash {
			t.Fatalf("%q has two hashes", holds)
		}
		held[hash], hashes[holds] = holds, hash
	}
	if len(held) < 20 {
		t.Errorf("%d disks in all", len(held))
	}
}

// The same draw is the same disk.
func TestCutRepeats(t *testing.T) {
	log := mustRecord(t)
	dirs := [2]string{t.TempDir(), t.TempDir()}
	for seed := range uint64(50) {
		for _, dir := range dirs {
			rng := rand.New(rand.NewPCG(seed, 1))
			if err := log.Cut(rng.IntN(log.Len()+1), rng.IntN).Restore(dir); err != nil {
				t.Fatal(err)
			}
		}
		first, missing := os.ReadFile(filepath.Join(dirs[0], "book"))
		second, _ := os.ReadFile(filepath.Join(dirs[1], "book"))
		if !bytes.Equal(first, second) {
			t.Fatalf("seed %d: two disks of one draw (%v)", seed, missing)
		}
	}
}
