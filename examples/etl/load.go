package main

import (
	"context"
	"sync"

	"github.com/flowfabric/flowfabric-go/activity"
)

// FileReport has the loaded and the refused rows of a file.
type FileReport struct {
	File    string    `json:"file"`
	Loaded  int       `json:"loaded"`
	Refused []Refusal `json:"refused"`
}

// loader loads tables into warehouses. The zero value is ready.
type loader struct {
	mu     sync.Mutex
	stores map[string]*warehouse
	counts loadCounts
	now    int // files in calls at present
}

// loadCounts counts the work of a loader.
type loadCounts struct {
	Calls    int // of Load
	Files    int // in these calls
	Repeated int // files that were in the warehouse already
	Peak     int // most files in calls at a time
}

// Load loads the tables of files, all tables of one warehouse in one transaction. A table that is there already is left
// as it is, so Load may be repeated.
func (l *loader) Load(_ context.Context, tables []Table) ([]activity.ItemResult[FileReport], error) {
	l.enter(len(tables))
	defer l.leave(len(tables))
	results := make([]activity.ItemResult[FileReport], len(tables))
	members := make(map[string][]int) // by warehouse
	for i, t := range tables {
		results[i].Value = FileReport{File: t.File.Name, Loaded: len(t.Rows), Refused: t.Refused}
		members[t.File.Source.Warehouse] = append(members[t.File.Source.Warehouse], i)
	}
	for dir, indexes := range members {
		entries := make([]entry, len(indexes))
		for j, i := range indexes {
			entries[j] = entry{Key: tables[i].Key, Rows: tables[i].Rows}
		}
		if err := l.commit(dir, entries); err != nil {
			for _, i := range indexes {
				results[i].Err = err
			}
		}
	}
	return results, nil
}

func (l *loader) commit(dir string, entries []entry) error {
	store, err := l.store(dir)
	if err != nil {
		return err
	}
	repeated, err := store.commit(entries)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.counts.Repeated += repeated
	return err
}

// store returns the warehouse in a folder, the same for all calls.
func (l *loader) store(dir string) (*warehouse, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w := l.stores[dir]; w != nil {
		return w, nil
	}
	w, err := openWarehouse(dir)
	if err != nil {
		return nil, err
	}
	if l.stores == nil {
		l.stores = make(map[string]*warehouse)
	}
	l.stores[dir] = w
	return w, nil
}

func (l *loader) enter(files int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now += files
	l.counts.Calls++
	l.counts.Files += files
	l.counts.Peak = max(l.counts.Peak, l.now)
}

func (l *loader) leave(files int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now -= files
}

// counted returns the counts of the loader so far.
func (l *loader) counted() loadCounts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}
