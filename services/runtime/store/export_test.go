package store

// Break closes the file under the store.
func (s *Store) Break() error { return s.db.Close() }
