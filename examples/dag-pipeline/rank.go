package main

import (
	"cmp"
	"context"
	"slices"
)

// Summary has the results of a part of a tree. It does not grow with the part: it keeps only the packages and
// functions that can be in a ranking of the whole, and those are in the ranking of their part too.
type Summary struct {
	Packages int `json:"packages"`
	Counts
	// Leaders are the packages that are in a ranking of this part.
	Leaders []Package  `json:"leaders"`
	Longest []Function `json:"longest"`
	// Broken are the first files that do not parse.
	Broken []Broken `json:"broken"`
}

// rows is the length of each ranking.
const rows = 20

// add joins two parts. The order in which parts are joined does not matter.
func (s *Summary) add(o Summary) {
	s.Packages += o.Packages
	s.Counts.add(o.Counts)
	s.Longest = longest(append(s.Longest, o.Longest...))
	s.Broken = first(append(s.Broken, o.Broken...), func(a, b Broken) int { return comparePaths(a.File, b.File) })
	s.Leaders = leaders(append(s.Leaders, o.Leaders...))
}

// Join adds up the summaries of all shards.
func Join(_ context.Context, shards []Summary) (Summary, error) {
	var total Summary
	for _, s := range shards {
		total.add(s)
	}
	return total, nil
}

// RankInput is all that was counted.
type RankInput struct {
	Source  Source  `json:"source"`
	Listing Listing `json:"listing"`
	Total   Summary `json:"total"`
}

// Ranking is the outcome of the census.
type Ranking struct {
	Root     string `json:"root"`
	Found    Found  `json:"found"`
	Packages int    `json:"packages"`
	Counts
	Tables  []Table    `json:"tables"`
	Longest []Function `json:"longest"`
	Broken  []Broken   `json:"broken"`
}

// Table is one ranking of packages, the first package leads.
type Table struct {
	Title    string    `json:"title"`
	Packages []Package `json:"packages"`
}

// Rank puts the leaders into the order of every ranking.
func Rank(_ context.Context, in RankInput) (Ranking, error) {
	ranking := Ranking{
		Root: in.Source.Root, Found: in.Listing.Found, Packages: in.Total.Packages, Counts: in.Total.Counts,
		Longest: longest(in.Total.Longest), Broken: in.Total.Broken,
	}
	for _, o := range orders() {
		ranking.Tables = append(ranking.Tables, Table{Title: o.title, Packages: o.first(in.Total.Leaders)})
	}
	return ranking, nil
}

// Largest returns the largest packages, the largest first.
func (r Ranking) Largest() []Package {
	if len(r.Tables) == 0 {
		return nil
	}
	return r.Tables[0].Packages
}

// order is a way to rank packages by a measure, the higher the better.
type order struct {
	title    string
	measure  func(Package) float64
	minLines int // smaller packages are left out
}

// ratioLines is the minimum size of a package for a meaningful comment ratio.
const ratioLines = 500

// orders lists the rankings. The first is by size: Largest returns it.
func orders() []order {
	return []order{
		{title: "Largest packages", measure: func(p Package) float64 { return float64(p.Lines) }},
		{title: "Most functions", measure: func(p Package) float64 { return float64(p.Functions) }},
		{title: "Most imports", measure: func(p Package) float64 { return float64(p.Imports) }},
		{title: "Most commented", measure: Package.CommentRatio, minLines: ratioLines},
		{title: "Least commented", measure: func(p Package) float64 { return -p.CommentRatio() }, minLines: ratioLines},
	}
}

func (o order) first(packages []Package) []Package {
	eligible := make([]Package, 0, len(packages))
	for _, p := range packages {
		if p.Lines >= o.minLines {
			eligible = append(eligible, p)
		}
	}
	return first(eligible, func(a, b Package) int {
		return cmp.Or(cmp.Compare(o.measure(b), o.measure(a)), comparePaths(a.Dir, b.Dir))
	})
}

// leaders returns the packages that are in any ranking, in the order of the walk.
func leaders(packages []Package) []Package {
	var union []Package
	for _, o := range orders() {
		union = append(union, o.first(packages)...)
	}
	slices.SortFunc(union, func(a, b Package) int { return comparePaths(a.Dir, b.Dir) })
	return slices.CompactFunc(union, func(a, b Package) bool { return a.Dir == b.Dir })
}

func longest(functions []Function) []Function {
	return first(functions, func(a, b Function) int {
		return cmp.Or(cmp.Compare(b.Lines, a.Lines), comparePaths(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// first sorts a list and keeps as much of it as a ranking holds.
func first[T any](list []T, compare func(a, b T) int) []T {
	slices.SortFunc(list, compare)
	return slices.Clip(list[:min(rows, len(list))])
}
