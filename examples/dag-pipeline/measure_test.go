package main

import (
	"bytes"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/activity/activitytest"
)

func TestMeasure(t *testing.T) {
	t.Parallel()
	in := MeasureInput{Source: Source{Root: fixture(t)}, Cuts: []Cut{{}, {From: "lib", Before: "lib/deep/er", Files: 2, Bytes: 600}}, Index: 1}
	got, err := Measure(t.Context(), in)
	require.NoError(t, err)
	got.Bytes, got.Leaders[0].Bytes = 0, 0
	counts := Counts{Files: 2, Lines: 36, Comments: 7, Functions: 3}
	require.Equal(t, Summary{
		Packages: 1, Counts: counts,
		Leaders: []Package{{
			Dir: "lib", Counts: counts, Imports: 2, Longest: Function{Name: "long", File: "lib/a.go", Line: 22, Lines: 7},
		}},
		Longest: []Function{
			{Name: "long", File: "lib/a.go", Line: 22, Lines: 7},
			{Name: "other", File: "lib/b.go", Line: 6, Lines: 3},
			{Name: "Pair.String", File: "lib/a.go", Line: 20, Lines: 1},
		},
	}, got)
}

func TestMeasureUnparsableFiles(t *testing.T) {
	t.Parallel()
	in := MeasureInput{Source: Source{Root: fixture(t)}, Cuts: []Cut{{From: "broken", Before: "lib", Files: 3, Bytes: 100}}}
	got, err := Measure(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, Counts{Files: 3, Bytes: got.Bytes, Lines: 8, Unparsable: 3}, got.Counts)
	require.Equal(t, []string{"broken/binary.go", "broken/half.go", "broken/pipe.go"}, []string{got.Broken[0].File, got.Broken[1].File, got.Broken[2].File})
	require.Equal(t, "line 1: illegal character U+007F", got.Broken[0].Reason)
}

func TestMeasureBadIndex(t *testing.T) {
	t.Parallel()
	_, err := Measure(t.Context(), MeasureInput{Index: 1, Cuts: []Cut{{}}})
	require.True(t, activitytest.IsNonRetryable(err))
}

func TestMeasureLargeFile(t *testing.T) {
	t.Parallel()
	tree := fstest.MapFS{"a.go": {Data: bytes.Repeat([]byte("\n"), maxSource+1000)}}
	got, err := measureTree(t.Context(), tree, Cut{From: root, Files: 1})
	require.NoError(t, err)
	require.Equal(t, []Broken{{File: "a.go", Reason: errTooLarge.Error()}}, got.Broken)
}

// Names come from the sources; they may not make a result as long as they like.
func TestMeasureBoundsNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ä", 10_000)
	tree := fstest.MapFS{long + "/" + long + ".go": {Data: []byte("package p; func " + long + "() {}")}}
	got, err := measureTree(t.Context(), tree, Cut{From: root, Files: 1})
	require.NoError(t, err)
	encoded, err := activity.JSON{}.Encode(got)
	require.NoError(t, err)
	require.Less(t, len(encoded), 2500)
	require.Equal(t, 1, got.Counts.Functions)
}

func TestCountLines(t *testing.T) {
	t.Parallel()
	for text, lines := range map[string]int{"": 0, "a": 1, "a\n": 1, "a\nb": 2, "\n\n": 2} {
		require.Equal(t, lines, countLines([]byte(text)), "%q", text)
	}
}

func TestCommentRatio(t *testing.T) {
	t.Parallel()
	require.Zero(t, Package{}.CommentRatio())
	require.InDelta(t, 0.25, Package{Counts: Counts{Lines: 100, Comments: 25}}.CommentRatio(), 1e-9)
}
