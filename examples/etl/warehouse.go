package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// warehouse is a store of rows in a folder: a log of transactions, each a file with its number. A transaction is there
// whole or not at all. Several processes may write to one folder: the file of a transaction is linked to its name,
// which fails for all but one writer of a number; the others read that transaction and try the next number.
type warehouse struct {
	dir string

	mu   sync.Mutex
	next int            // number of the next transaction
	keys map[string]int // rows by key, of the transactions before next
}

// entry is the part of a transaction that has one key.
type entry struct {
	Key  string `json:"key"`
	Rows []Row  `json:"rows"`
}

// openWarehouse opens the warehouse in a folder, which it makes unless it exists.
func openWarehouse(dir string) (*warehouse, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	return &warehouse{dir: dir, keys: make(map[string]int)}, nil
}

func (w *warehouse) path(number int) string {
	return filepath.Join(w.dir, fmt.Sprintf("tx-%06d.json", number))
}

// commit adds entries in one transaction, without those whose keys are there already. It returns how many were.
func (w *warehouse) commit(entries []entry) (repeated int, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if err := w.catchUp(nil); err != nil {
			return 0, err
		}
		fresh := w.fresh(entries)
		if len(fresh) == 0 {
			return len(entries), nil
		}
		switch err := w.write(fresh); {
		case err == nil:
			return len(entries) - len(fresh), nil
		case !errors.Is(err, fs.ErrExist):
			return 0, err
		}
	}
}

// fresh returns the entries whose keys are not there, each key once.
func (w *warehouse) fresh(entries []entry) []entry {
	var fresh []entry
	seen := make(map[string]bool)
	for _, e := range entries {
		if _, there := w.keys[e.Key]; !there && !seen[e.Key] {
			fresh = append(fresh, e)
			seen[e.Key] = true
		}
	}
	return fresh
}

// write writes the next transaction. The error wraps fs.ErrExist when another writer was faster.
func (w *warehouse) write(entries []entry) error {
	content, err := json.Marshal(entries)
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(w.dir, "draft-*")
	if err != nil {
		return err
	}
	defer os.Remove(draft.Name())
	_, err = draft.Write(content)
	if err = errors.Join(err, draft.Sync(), draft.Close()); err != nil {
		return err
	}
	return os.Link(draft.Name(), w.path(w.next))
}

// catchUp reads the transactions that are new, and passes their entries to visit, which may be nil.
func (w *warehouse) catchUp(visit func(entry)) error {
	for {
		content, err := os.ReadFile(w.path(w.next))
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		var entries []entry
		if err := json.Unmarshal(content, &entries); err != nil {
			return fmt.Errorf("%s: %w", w.path(w.next), err)
		}
		for _, e := range entries {
			w.keys[e.Key] = len(e.Rows)
			if visit != nil {
				visit(e)
			}
		}
		w.next++
	}
}

// readWarehouse returns the number of transactions in a folder, and all entries in the order of their commits.
func readWarehouse(dir string) (transactions int, entries []entry, err error) {
	w := &warehouse{dir: dir, keys: make(map[string]int)}
	err = w.catchUp(func(e entry) { entries = append(entries, e) })
	return w.next, entries, err
}
