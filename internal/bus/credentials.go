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

// seedSuffix ends the name of a seed file: <identity as a token>.nk.
const seedSuffix = ".nk"

// ErrExposed means that other users may access a seed or the directory of seeds.
var ErrExposed = errors.New("bus: credentials are open to other users")

// NewKey creates a key: the secret seed and its public half.
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

// WriteCredentials ensures that dir holds one seed file for each identity, and returns the users.
// The directory gets mode 0700 and the files 0600. Existing seeds are kept.
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

// ensureSeed returns the user of id and creates the seed if there is none. If several processes
// create it, the first wins. A seed file is always complete.
func ensureSeed(root *os.Root, id proto.Identity) (User, error) {
	seed, err := readSeed(root, id)
	if errors.Is(err, fs.ErrNotExist) {
		if err = createSeed(root, id.Token()+seedSuffix); err == nil || errors.Is(err, fs.ErrExist) {
			seed, err = readSeed(root, id)
		}
	}
	if err != nil {
		return User{}, err
	}
	return userOf(id, seed)
}

// createSeed writes a new seed to a temporary file and links it to name once it is on disk, so that
// a kill in between leaves no partial seed. An existing file is not replaced.
func createSeed(root *os.Root, name string) error {
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

// LoadSeed reads the seed of id. It returns [ErrExposed] if other users may read or replace the
// seed.
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

// LoadUsers returns every identity that has a seed in dir, ordered by file name.
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
