package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/flowfabric/flowfabric-go/activity"
)

// Source is the tree to measure.
type Source struct {
	// Root is the absolute path of a directory that every worker can read.
	Root string `json:"root"`
}

// Listing is the result of a scan. It holds no file names: the engine keeps every node's result and gives it to the
// nodes that need it, so a result is limited to 1 MiB, and a large tree has more names than that. The order in which a
// tree is walked makes them unnecessary: a directory's path defines the beginning and the end of a span.
type Listing struct {
	Found
	// Spans divide the tree, in the order of the walk.
	Spans []Span `json:"spans"`
}

// Found has the counts of a tree.
type Found struct {
	Directories int   `json:"directories"`
	Files       int   `json:"files"`  // of Go
	Bytes       int64 `json:"bytes"`  // in the files of Go
	Others      int   `json:"others"` // other files
	Links       int   `json:"links"`  // symbolic links, which are not followed
	Unreadable  int   `json:"unreadable"`
}

// Span is a section of the walk: from one directory to the beginning of the next span.
type Span struct {
	From  string `json:"from"`
	Files int    `json:"files"`
	Bytes int64  `json:"bytes"`
}

// maxSpanText bounds the paths in a Listing, in bytes. In a tree that has more, spans cover several directories each.
const maxSpanText = 256 << 10

// Scan walks the tree and counts the files to measure.
func Scan(ctx context.Context, in Source) (Listing, error) {
	if err := checkTree(in.Root); err != nil {
		return Listing{}, activity.NonRetryable(err)
	}
	return scanTree(ctx, os.DirFS(in.Root), maxSpanText)
}

// checkTree returns an error if a path is not a readable tree.
func checkTree(path string) error {
	switch info, err := os.Stat(path); {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("tree %q: there is no such directory", path)
	case err != nil:
		return fmt.Errorf("tree %q: %w", path, err)
	case !info.IsDir():
		return fmt.Errorf("tree %q: must be a directory, it is a file", path)
	}
	return nil
}

func scanTree(ctx context.Context, tree fs.FS, maxText int) (Listing, error) {
	var found Listing
	text := 0
	var pace pace
	err := walk(tree, root, "", func(dir string, entries []fs.DirEntry, err error) error {
		if err != nil {
			if dir == root {
				return fmt.Errorf("read the tree: %w", err)
			}
			found.Unreadable++
		}
		found.Directories++
		span := Span{From: dir}
		for _, entry := range entries {
			switch {
			case entry.IsDir():
			case entry.Type()&fs.ModeSymlink != 0:
				found.Links++
			case !isGo(entry):
				found.Others++
			default:
				span.Files++
				if info, err := entry.Info(); err == nil {
					span.Bytes += info.Size()
				}
			}
		}
		if span.Files > 0 {
			found.Files += span.Files
			found.Bytes += span.Bytes
			found.Spans = append(found.Spans, span)
			text += len(dir)
			for text > maxText && len(found.Spans) > 1 {
				found.Spans, text = coarsen(found.Spans)
			}
		}
		return pace.report(ctx, 0, func() string {
			return fmt.Sprintf("%s directories, %s Go files", thousands(found.Directories), thousands(found.Files))
		})
	})
	return found, err
}

// coarsen joins spans two by two and returns the length of the paths that are left.
func coarsen(spans []Span) (half []Span, text int) {
	half = make([]Span, 0, (len(spans)+1)/2)
	for i, span := range spans {
		if i%2 == 0 {
			half = append(half, span)
			text += len(span.From)
			continue
		}
		half[len(half)-1].Files += span.Files
		half[len(half)-1].Bytes += span.Bytes
	}
	return half, text
}

// CutInput is a tree and the number of parts to cut it into.
type CutInput struct {
	Listing Listing `json:"listing"`
	Shards  int     `json:"shards"`
}

// Cut is the part of a tree that one node measures: the directories from From to just before Before, in the order of
// the walk. An empty Before is the end of the tree. A cut without files is empty, whatever its ends are.
type Cut struct {
	From   string `json:"from"`
	Before string `json:"before"`
	Files  int    `json:"files"`
	Bytes  int64  `json:"bytes"`
}

// CutTree cuts a tree into parts of about the same number of bytes. A directory, and so a package, is never divided.
func CutTree(_ context.Context, in CutInput) ([]Cut, error) {
	if in.Shards < 1 {
		return nil, fmt.Errorf("%d shards: there must be at least 1", in.Shards)
	}
	cuts := make([]Cut, in.Shards)
	spans := in.Listing.Spans
	var done int64
	for i := range cuts {
		last := i == in.Shards-1
		goal := in.Listing.Bytes / int64(in.Shards) * int64(i+1)
		for len(spans) > 0 && (last || done < goal) {
			if cuts[i].Files == 0 {
				cuts[i].From = spans[0].From
			}
			cuts[i].Files += spans[0].Files
			cuts[i].Bytes += spans[0].Bytes
			done += spans[0].Bytes
			spans = spans[1:]
		}
		if len(spans) > 0 {
			cuts[i].Before = spans[0].From
		}
	}
	return cuts, nil
}

// isGo reports whether an entry is a regular file of Go.
func isGo(entry fs.DirEntry) bool {
	return entry.Type().IsRegular() && strings.HasSuffix(entry.Name(), ".go")
}
