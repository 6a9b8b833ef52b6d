package main

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
)

// root is the path of a tree's own directory in an fs.FS.
const root = "."

// walk visits the directories of a tree from one path to just before another, in the order of comparePaths. An empty
// before is the end. Hidden directories are left out, links are not followed, so the walk always ends. visit gets the
// error of a directory that cannot be read, together with the entries that could.
func walk(tree fs.FS, from, before string, visit func(dir string, entries []fs.DirEntry, err error) error) error {
	var descend func(dir string) error
	descend = func(dir string) error {
		if before != "" && comparePaths(dir, before) >= 0 {
			return fs.SkipAll
		}
		reached := comparePaths(dir, from) >= 0
		if !reached && !within(from, dir) {
			return nil
		}
		entries, err := fs.ReadDir(tree, dir)
		if reached {
			if err := visit(dir, entries, err); err != nil {
				return err
			}
		}
		for _, entry := range entries {
			if !entry.IsDir() || strings.HasPrefix(entry.Name(), ".") {
				continue
			}
			if err := descend(path.Join(dir, entry.Name())); err != nil {
				return err
			}
		}
		return nil
	}
	err := descend(root)
	if errors.Is(err, fs.SkipAll) {
		return nil
	}
	return err
}

// comparePaths orders directories in the order of a walk: a directory before its contents, siblings by name. That is
// not the order of the strings: a/b comes before a-c.
func comparePaths(a, b string) int {
	switch {
	case a == b:
		return 0
	case a == root:
		return -1
	case b == root:
		return 1
	}
	for i := range min(len(a), len(b)) {
		switch {
		case a[i] == b[i]:
		case a[i] == '/':
			return -1
		case b[i] == '/':
			return 1
		default:
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// within reports whether a path is a directory's or lies below it.
func within(name, dir string) bool {
	return dir == root || name == dir || strings.HasPrefix(name, dir+"/")
}

// progressEvery is the time between two progress reports of a node; each is a call to the engine.
const progressEvery = 200 * time.Millisecond

// pace sends a heartbeat in every iteration of a loop, and a progress report now and then.
type pace struct{ last time.Time }

// report returns an error when the function should stop.
func (p *pace) report(ctx context.Context, percent float64, message func() string) error {
	if time.Since(p.last) < progressEvery {
		return activity.Heartbeat(ctx)
	}
	p.last = time.Now()
	if err := activity.Progress(ctx, percent, message()); err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	// A report that did not reach the engine is ignored: a later one may reach it.
	return nil
}
