package engine

import (
	"context"
	"slices"

	"github.com/redis/rueidis"
)

// Filled reports for each list of keys whether one of them exists, and true where the read failed, so that whoever asks
// looks closer. The keys of one list lie in one slot.
//
// Where one server has all keys, one command asks for all lists at once, and only if it finds a key is each list asked
// for: mostly none exists. On a cluster each list takes a command.
func (s *Session) Filled(ctx context.Context, lists [][]string) []bool {
	filled := make([]bool, len(lists))
	exists := func(keys []string) rueidis.Completed { return s.Client.B().Exists().Key(keys...).Build() }
	if len(lists) > 1 && s.Client.Mode() != rueidis.ClientModeCluster {
		n, err := s.Client.Do(ctx, exists(slices.Concat(lists...))).AsInt64()
		if err == nil && n == 0 {
			return filled
		}
	}
	questions := make(rueidis.Commands, len(lists))
	for i, keys := range lists {
		questions[i] = exists(keys)
	}
	for i, answer := range s.Client.DoMulti(ctx, questions...) {
		n, err := answer.AsInt64()
		filled[i] = err != nil || n > 0
	}
	return filled
}
