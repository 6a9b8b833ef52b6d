package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// fixture unpacks testdata/tree.txt: a line "-- name --" begins each file. It adds a binary file that calls itself Go,
// an empty directory, a directory that calls itself Go, and links that lead in circles.
func fixture(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/tree.txt")
	require.NoError(t, err)
	root, err := filepath.EvalSymlinks(t.TempDir())
	require.NoError(t, err)
	root = filepath.Join(root, "tree")
	for _, section := range strings.Split("\n"+string(text), "\n-- ")[1:] {
		name, content, found := strings.Cut(section, " --\n")
		require.True(t, found, section)
		write(t, filepath.Join(root, name), content+"\n")
	}
	write(t, filepath.Join(root, "broken", "binary.go"), "\x7fELF\x00\xff\xfe\n\x00")
	require.NoError(t, os.MkdirAll(filepath.Join(root, "empty", "also-empty"), 0o755))
	require.NoError(t, os.Mkdir(filepath.Join(root, "dir.go"), 0o755))
	require.NoError(t, os.Symlink("..", filepath.Join(root, "lib", "up")))
	require.NoError(t, os.Symlink("a.go", filepath.Join(root, "lib", "again.go")))
	require.NoError(t, os.Symlink(root, filepath.Join(root, "self")))
	return root
}

func write(t *testing.T, path, content string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte(content), 0o644))
}

// measureAll runs the activities up to the ranking by hand.
func measureAll(t *testing.T, root string, shards int) Ranking {
	t.Helper()
	ctx := context.Background()
	source := Source{Root: root}
	listing, err := scan.Call(ctx, source)
	require.NoError(t, err)
	cuts, err := cut.Call(ctx, CutInput{Listing: listing, Shards: shards})
	require.NoError(t, err)
	var summaries []Summary
	for i := range cuts {
		s, err := measure.Call(ctx, MeasureInput{Source: source, Cuts: cuts, Index: i})
		require.NoError(t, err)
		summaries = append(summaries, s)
	}
	total, err := join.Call(ctx, summaries)
	require.NoError(t, err)
	ranking, err := rank.Call(ctx, RankInput{Source: source, Listing: listing, Total: total})
	require.NoError(t, err)
	return ranking
}
