package bus

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/nats-io/nkeys"

	"github.com/podfall/podfall/proto"
)

// seedSuffix ends the name of a file with a seed: <identity as a token>.nk.
const seedSuffix = ".nk"

// ErrExposed means that a seed, or the directory of seeds, is open to other users.
var ErrExposed = errors.New("bus: credentials are open to other users")

// NewKey makes a key: the seed that proves it, which is secret, and its public half.
func NewKey() (seed []byte, public string, err error) {
	pair, err := nkeys.CreateUser()
	if err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	if seed, err = pair.Seed(); err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	if public, err = pair.PublicKey(); err != nil {
		return nil, "", fmt.Errorf("make a key: %w", err)
	}
	return seed, public, nil
}

// WriteCredentials makes sure that dir holds one seed file for each identity, and
// returns who they are. The directory is made with mode 0700 and the files with 0600;
// a seed that exists is kept.
func WriteCredentials(dir string, ids ...proto.Identity) ([]User, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make credentials: %w", err)
	}
	root, err := openPrivate(dir)
	if err != nil {
		return nil, fmt.Errorf("make credentials: %w", err)
	}
	defer func() { _ = root.Close() }()
	users := make([]User, 0, len(ids))
	for _, id := range ids {
		user, err := ensureSeed(root, id)
		if err != nil {
			return nil, fmt.Errorf("make credentials of %s: %w", id, err)
		}
		users = append(users, user)
	}
	return users, nil
}

// ensureSeed is who has the seed of id, which is made if there is none. Whoever makes it
// first wins; a file under the name of a seed holds all of it.
func ensureSeed(root *os.Root, id proto.Identity) (User, error) {
	seed, err := readSeed(root, id)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeSeed(root, id.Token()+seedSuffix); err == nil || errors.Is(err, fs.ErrExist) {
			seed, err = readSeed(root, id)
		}
	}
	if err != nil {
		return User{}, err
	}
	return userOf(id, seed)
}

// makeSeed writes a new seed beside name and links it there once it is on disk, so that
// being killed in between leaves no half of a seed. A file of that name is not replaced.
func makeSeed(root *os.Root, name string) error {
	seed, _, err := NewKey()
	if err != nil {
		return err
	}
	draft := name + ".new-" + rand.Text()
	if err := writeSynced(root, draft, append(seed, '\n')); err != nil {
		return errors.Join(err, root.Remove(draft))
	}
	return errors.Join(root.Link(draft, name), root.Remove(draft), syncDir(root))
}

func writeSynced(root *os.Root, name string, data []byte) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncDir(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// LoadSeed reads the seed of id, and refuses it with [ErrExposed] when others than its
// owner may read or replace it.
func LoadSeed(dir string, id proto.Identity) ([]byte, error) {
	root, err := openPrivate(dir)
	if err != nil {
		return nil, fmt.Errorf("load credentials of %s: %w", id, err)
	}
	defer func() { _ = root.Close() }()
	seed, err := readSeed(root, id)
	if err != nil {
		return nil, fmt.Errorf("load credentials of %s: %w", id, err)
	}
	return seed, nil
}

// LoadUsers is every identity that has a seed in dir, by file name.
func LoadUsers(dir string) ([]User, error) {
	root, err := openPrivate(dir)
	if err != nil {
		return nil, fmt.Errorf("load users: %w", err)
	}
	defer func() { _ = root.Close() }()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("load users: %w", err)
	}
	var users []User
	for _, entry := range entries {
		token, ok := strings.CutSuffix(entry.Name(), seedSuffix)
		if !ok {
			continue
		}
		id, err := proto.ParseIdentity(token)
		if err != nil {
			return nil, fmt.Errorf("load users: %s: %w", entry.Name(), err)
		}
		seed, err := readSeed(root, id)
		if err != nil {
			return nil, fmt.Errorf("load users: %s: %w", entry.Name(), err)
		}
		user, err := userOf(id, seed)
		if err != nil {
			return nil, fmt.Errorf("load users: %s: %w", entry.Name(), err)
		}
		users = append(users, user)
	}
	return users, nil
}

func openPrivate(dir string) (*os.Root, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err == nil && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("%w: %s has mode %04o, want 0700", ErrExposed, dir, info.Mode().Perm())
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func readSeed(root *os.Root, id proto.Identity) ([]byte, error) {
	name := id.Token() + seedSuffix
	info, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("%w: %s has mode %v, want a file with 0600", ErrExposed, name, info.Mode())
	}
	text, err := root.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return []byte(strings.TrimSpace(string(text))), nil
}

func userOf(id proto.Identity, seed []byte) (User, error) {
	pair, err := nkeys.FromSeed(seed)
	if err != nil {
		return User{}, err
	}
	public, err := pair.PublicKey()
	if err != nil {
		return User{}, err
	}
	return User{Identity: id, Public: public}, nil
}
