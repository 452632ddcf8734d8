package store

// Break takes the file away from under the store.
func (s *Store) Break() error { return s.db.Close() }
