package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
)

func TestJoinOfNothing(t *testing.T) {
	t.Parallel()
	total, err := Join(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, Summary{}, total)
}

func TestRank(t *testing.T) {
	t.Parallel()
	small := Package{Dir: "small", Counts: Counts{Lines: 10, Comments: 10, Functions: 9}}
	large := Package{Dir: "large", Counts: Counts{Lines: 2000, Comments: 100, Functions: 5}, Imports: 3}
	medium := Package{Dir: "medium", Counts: Counts{Lines: 600, Comments: 300, Functions: 5}, Imports: 7}
	in := RankInput{
		Source: Source{Root: "/tree"}, Listing: Listing{Found: Found{Files: 4, Others: 1}},
		Total: Summary{Packages: 3, Leaders: []Package{small, medium, large}},
	}
	ranking, err := Rank(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, "/tree", ranking.Root)
	require.Equal(t, in.Listing.Found, ranking.Found)
	order := make(map[string][]string)
	for _, table := range ranking.Tables {
		for _, p := range table.Packages {
			order[table.Title] = append(order[table.Title], p.Dir)
		}
	}
	require.Equal(t, map[string][]string{
		"Largest packages": {"large", "medium", "small"},
		"Most functions":   {"small", "large", "medium"}, // equals by name
		"Most imports":     {"medium", "large", "small"},
		"Most commented":   {"medium", "large"}, // small is too small
		"Least commented":  {"large", "medium"},
	}, order)
	require.Equal(t, ranking.Tables[0].Packages, ranking.Largest())
}

// A node's result is limited, so the summary of a huge tree must not grow with it.
func TestSummaryIsBounded(t *testing.T) {
	t.Parallel()
	var sum Summary
	for i := range 1000 {
		dir := fmt.Sprintf("%0190d", i)
		f := Function{Name: dir, File: dir, Line: i, Lines: i}
		sum.add(Summary{
			Packages: 1, Counts: Counts{Lines: i}, Leaders: []Package{{
				Dir: dir, Counts: Counts{Lines: i, Comments: i % 997, Functions: i % 991}, Imports: i % 983, Longest: f,
			}}, Longest: []Function{f}, Broken: []Broken{{File: dir, Reason: dir}},
		})
	}
	require.Equal(t, 1000, sum.Packages)
	ranking, err := Rank(t.Context(), RankInput{Total: sum})
	require.NoError(t, err)
	report, err := Report(t.Context(), ranking)
	require.NoError(t, err)
	chart, err := Chart(t.Context(), ranking)
	require.NoError(t, err)
	for _, value := range []any{sum, ranking, Edition{Ranking: ranking, Report: report, Chart: chart}} {
		encoded, err := activity.JSON{}.Encode(value)
		require.NoError(t, err)
		require.Less(t, len(encoded), 1<<20/2)
	}
}
