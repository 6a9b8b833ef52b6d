package keeper

import (
	"context"
	"slices"
	"sync"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

const (
	// absentGroup is the number of partitions whose keys of one kind one command checks.
	absentGroup = 8
	// presentVisits is the number of ticks that read a key without asking for it, after one has found that it exists.
	presentVisits = 16
	// maxPresentKeys bounds the keys that are remembered. Each tick checks the keys beyond it.
	maxPresentKeys = 100_000
)

// absentKeys are keys that a tick need not read, since they did not exist a moment ago. Nil knows of none.
type absentKeys map[string]bool

// all reports whether none of some keys exists.
func (a absentKeys) all(keys ...string) bool {
	for _, key := range keys {
		if !a[key] {
			return false
		}
	}
	return true
}

// presentKeys remembers keys that existed lately. The zero value is empty; it is safe for concurrent use.
type presentKeys struct {
	mu     sync.Mutex
	visits map[string]int // how many more ticks read a key without asking for it
}

// others returns the keys that have to be checked, and counts a tick for the rest.
func (k *presentKeys) others(keys []string) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var others []string
	for _, key := range keys {
		switch left := k.visits[key]; left {
		case 0:
			others = append(others, key)
		case 1:
			delete(k.visits, key)
		default:
			k.visits[key] = left - 1
		}
	}
	return others
}

// note remembers a key that exists.
func (k *presentKeys) note(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.visits == nil {
		k.visits = make(map[string]int)
	}
	if len(k.visits) < maxPresentKeys {
		k.visits[key] = presentVisits
	}
}

// absent returns the keys of the ticks of some partitions that do not exist. Most of them do not, and this seldom
// changes, so one command for the keys that have not existed lately mostly answers for all partitions; on a cluster,
// one command for each partition. Only if it finds some are the keys checked by kind, in groups, and one by one.
func (c *Keeper) absent(ctx context.Context, calls []enginerpc.KeepCall, lanes []enginecore.LaneID) absentKeys {
	lists := make([][]string, len(calls))
	var kinds [][]string // each has one key of each partition
	for i, call := range calls {
		keys := c.TickKeys(call.Partition, lanes)
		lists[i] = c.present.others(keys)
		if kinds == nil {
			kinds = make([][]string, len(keys))
		}
		for kind, key := range keys {
			if slices.Contains(lists[i], key) {
				kinds[kind] = append(kinds[kind], key)
			}
		}
	}
	known := make(absentKeys)
	if c.Client.Mode() == rueidis.ClientModeCluster {
		c.withSome(ctx, known, chunks(c.withSome(ctx, known, lists), 1))
		return known
	}
	if len(c.withSome(ctx, known, [][]string{slices.Concat(lists...)})) > 0 {
		some := c.withSome(ctx, known, kinds)
		some = c.withSome(ctx, known, chunks(some, absentGroup))
		c.withSome(ctx, known, chunks(some, 1))
	}
	return known
}

// chunks divides each list into parts of a size.
func chunks(lists [][]string, size int) (parts [][]string) {
	for _, list := range lists {
		parts = slices.AppendSeq(parts, slices.Chunk(list, size))
	}
	return parts
}

// withSome checks the keys of each list with one command. It records the keys of lists of which none exists, and
// single keys that exist, and returns the lists of which some exist. If the engine could not be reached, it records
// none.
func (c *Keeper) withSome(ctx context.Context, known absentKeys, lists [][]string) (some [][]string) {
	lists = slices.DeleteFunc(lists, func(list []string) bool { return len(list) == 0 })
	questions := make(rueidis.Commands, len(lists))
	for i, list := range lists {
		questions[i] = c.Client.B().Exists().Key(list...).Build()
	}
	for i, answer := range c.Client.DoMulti(ctx, questions...) {
		n, err := answer.AsInt64()
		switch {
		case err != nil:
		case n == 0:
			for _, key := range lists[i] {
				known[key] = true
			}
		case len(lists[i]) == 1:
			c.present.note(lists[i][0])
		default:
			some = append(some, lists[i])
		}
	}
	return some
}
