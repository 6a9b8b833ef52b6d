package engine

import (
	"context"
	"slices"

	"github.com/redis/rueidis"
)

// filledGroup is the number of lists that one command of Filled checks after it has found that some of many exist.
const filledGroup = 8

// Filled reports for each list of keys whether one of them exists, and true where the read failed, so that the caller
// reads the keys themselves. The keys of one list lie in one slot.
//
// Where one server has all keys, one command checks all lists at once, since mostly none of the keys exists. If it
// finds a key, the lists are checked in groups, and the lists of each group with a key one by one. On a cluster each
// list takes a command.
func (s *Session) Filled(ctx context.Context, lists [][]string) []bool {
	filled := make([]bool, len(lists))
	candidates := make([]int, len(lists))
	for i := range lists {
		candidates[i] = i
	}
	if s.Client.Mode() != rueidis.ClientModeCluster {
		for _, size := range []int{len(lists), filledGroup} {
			if len(candidates) > 1 {
				candidates = s.inFilledGroups(ctx, lists, candidates, size)
			}
		}
	}
	questions := make(rueidis.Commands, len(candidates))
	for i, list := range candidates {
		questions[i] = s.Client.B().Exists().Key(lists[list]...).Build()
	}
	for i, answer := range s.Client.DoMulti(ctx, questions...) {
		n, err := answer.AsInt64()
		filled[candidates[i]] = err != nil || n > 0
	}
	return filled
}

// inFilledGroups checks groups of the candidates with one command each, and returns the candidates whose group has a
// key.
func (s *Session) inFilledGroups(ctx context.Context, lists [][]string, candidates []int, size int) []int {
	groups := slices.Collect(slices.Chunk(candidates, size))
	questions := make(rueidis.Commands, len(groups))
	for i, group := range groups {
		var keys []string
		for _, list := range group {
			keys = append(keys, lists[list]...)
		}
		questions[i] = s.Client.B().Exists().Key(keys...).Build()
	}
	var left []int
	for i, answer := range s.Client.DoMulti(ctx, questions...) {
		if n, err := answer.AsInt64(); err != nil || n > 0 {
			left = append(left, groups[i]...)
		}
	}
	return left
}
