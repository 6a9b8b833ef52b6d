package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

func TestScan(t *testing.T) {
	t.Parallel()
	listing, err := Scan(t.Context(), Source{Root: fixture(t)})
	require.NoError(t, err)
	size := listing.Bytes
	listing.Bytes = 0
	require.Equal(t, Found{Directories: 9, Files: 8, Others: 1, Links: 3}, listing.Found)
	var from []string
	for _, span := range listing.Spans {
		from = append(from, span.From)
		size -= span.Bytes
	}
	require.Equal(t, []string{".", "broken", "lib", "lib/deep/er", "lib-2"}, from)
	require.Zero(t, size)
}

func TestScanOfNothing(t *testing.T) {
	t.Parallel()
	listing, err := Scan(t.Context(), Source{Root: t.TempDir()})
	require.NoError(t, err)
	require.Equal(t, Listing{Found: Found{Directories: 1}}, listing)
}

func TestScanOfBadTree(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	for _, root := range []string{file, filepath.Join(file, "below"), "/there/is/no/such/tree"} {
		_, err := Scan(t.Context(), Source{Root: root})
		require.ErrorContains(t, err, fmt.Sprintf("tree %q", root))
		require.True(t, activitytest.IsNonRetryable(err))
	}
}

func TestScanCountsUnreadable(t *testing.T) {
	t.Parallel()
	tree := unreadable{fstest.MapFS{"a/a.go": {Data: []byte("package a\n")}, "b/b.go": {}, "c/c.go": {}}, "b"}
	listing, err := scanTree(t.Context(), tree, maxSpanText)
	require.NoError(t, err)
	require.Equal(t, Found{Directories: 4, Files: 2, Bytes: 10, Unreadable: 1}, listing.Found)

	_, err = scanTree(t.Context(), unreadable{tree.FS, root}, maxSpanText)
	require.ErrorIs(t, err, errDisk)
}

var errDisk = errors.New("the disk is on fire")

// unreadable is a tree with one directory that cannot be read.
type unreadable struct {
	fs.FS
	dir string
}

func (u unreadable) ReadDir(name string) ([]fs.DirEntry, error) {
	if name == u.dir {
		return nil, errDisk
	}
	return fs.ReadDir(u.FS, name)
}

func TestScanStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errDisk)
	_, err := Scan(ctx, Source{Root: fixture(t)})
	require.ErrorIs(t, err, errDisk)
	_, err = Measure(ctx, MeasureInput{Source: Source{Root: fixture(t)}, Cuts: []Cut{{From: root, Files: 1}}})
	require.ErrorIs(t, err, errDisk)
}

// However a large tree is cut, every package is measured once, and the outcome is the same.
func TestCutsCoverTheTree(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{}
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"a", "a-b", "a.b", "ab", "b", "B", "ä", "0"}
	for len(tree) < 150 {
		dir := root
		for range random.IntN(5) {
			dir = filepath.ToSlash(filepath.Join(dir, names[random.IntN(len(names))]))
		}
		source := fmt.Sprintf("package p\n\nfunc f() {%*s}\n", random.IntN(200), "\n")
		tree[filepath.ToSlash(filepath.Join(dir, fmt.Sprintf("f%d.go", random.IntN(3))))] = &fstest.MapFile{Data: []byte(source)}
	}
	whole := measureTreeIn(t, tree, 1, maxSpanText)
	require.Equal(t, len(tree), whole.Files)
	for _, shards := range []int{2, 16, 200} {
		for _, text := range []int{maxSpanText, 100, 1} {
			require.Equal(t, whole, measureTreeIn(t, tree, shards, text), "%d shards, %d bytes of spans", shards, text)
		}
	}
}

func measureTreeIn(t *testing.T, tree fs.FS, shards, text int) Summary {
	t.Helper()
	listing, err := scanTree(t.Context(), tree, text)
	require.NoError(t, err)
	cuts, err := CutTree(t.Context(), CutInput{Listing: listing, Shards: shards})
	require.NoError(t, err)
	require.Len(t, cuts, shards)
	var summaries []Summary
	for _, part := range cuts {
		s, err := measureTree(t.Context(), tree, part)
		require.NoError(t, err)
		require.Equal(t, part.Files, s.Files)
		require.Equal(t, part.Bytes, s.Bytes)
		summaries = append(summaries, s)
	}
	slices.Reverse(summaries) // the order does not matter
	total, err := Join(t.Context(), summaries)
	require.NoError(t, err)
	return total
}

func TestCutBalances(t *testing.T) {
	t.Parallel()
	listing := Listing{Found: Found{Files: 6, Bytes: 600}}
	for _, dir := range []string{"a", "b", "c", "d", "e", "f"} {
		listing.Spans = append(listing.Spans, Span{From: dir, Files: 1, Bytes: 100})
	}
	cuts, err := CutTree(t.Context(), CutInput{Listing: listing, Shards: 3})
	require.NoError(t, err)
	require.Equal(t, []Cut{
		{From: "a", Before: "c", Files: 2, Bytes: 200}, {From: "c", Before: "e", Files: 2, Bytes: 200}, {From: "e", Files: 2, Bytes: 200},
	}, cuts)

	_, err = CutTree(t.Context(), CutInput{Listing: listing})
	require.ErrorContains(t, err, "0 shards")
}

func TestPathOrderEqualsTheWalk(t *testing.T) {
	t.Parallel()
	var walked []string
	require.NoError(t, walk(os.DirFS(fixture(t)), root, "", func(dir string, _ []fs.DirEntry, _ error) error {
		walked = append(walked, dir)
		return nil
	}))
	require.True(t, slices.IsSortedFunc(walked, comparePaths), walked)
	require.Contains(t, walked, "lib/deep")
	require.NotContains(t, walked, ".hidden")
}
