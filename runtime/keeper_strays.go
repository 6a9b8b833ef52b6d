package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

const (
	// scannedAtOnce is about how many keys one step looks at.
	scannedAtOnce = 1000
	// scanWithin is how long a server may take for a page of its keys. Without a bound, the client library waits for one that
	// is away until it is back. An engine in this process is never away, however busy the machine is.
	scanWithin = 5 * time.Second
	// strayPage bounds the entries that one call looks at of the lists and sets that it is given.
	strayPage = 256
)

// stray is a record or a list that has to be found among all keys, because what should lead to it may be lost.
type stray struct {
	kind, name string
	// cursor is how far a list has been gone through.
	cursor string
}

// sweep is a way through all keys of the engine.
type sweep struct {
	*Keeper
	byTag map[string]enginecore.Partition
	// nodes are the servers that are left to go through, cursor is how far the first of them has been.
	nodes  []string
	cursor uint64
	// found is what has been found and not been looked at yet.
	found map[enginecore.Partition][]stray
	// faults are those of this way by hand. Servers that are away are left out, so that they do not keep the others from
	// their turn; the next way may meet them.
	faults []error
}

// straysRound goes through all keys for what no index leads to: records that are missing from all of them, lists of runs and
// sets of leases whose entries belong to nothing.
func (k *Keeper) straysRound() *round {
	s := &sweep{Keeper: k, byTag: make(map[string]enginecore.Partition), found: make(map[enginecore.Partition][]stray)}
	for _, p := range k.engine.partitions() {
		s.byTag[p.Tag()] = p
	}
	return &round{
		duties: []Duty{DutyKeyReconciliation}, family: enginecore.FlowFamily, every: k.reconcileEvery, mends: true, whole: true,
		step: func(ctx context.Context, partitions []enginecore.Partition, only Duty) []outcome {
			outcomes := make([]outcome, len(partitions))
			more, mended, err := s.step(ctx)
			err = s.leaveOut(ctx, err, more, only != "")
			outcomes[0] = outcome{err: err, mended: mended, done: []dutyDone{{duty: DutyKeyReconciliation, count: sumOf(mended)}}}
			if more {
				outcomes[0].more, outcomes[0].next = only != "", k.reconcileEvery/stepsPerRound
			}
			return outcomes
		},
	}
}

// leaveOut notes what a step could not look at. By hand, all that is told when the way is over.
func (s *sweep) leaveOut(ctx context.Context, err error, more, byHand bool) error {
	switch {
	case byHand:
		s.faults = append(s.faults, err)
		if !more {
			err, s.faults = errors.Join(s.faults...), nil
			return err
		}
	case err != nil && ctx.Err() == nil:
		s.engine.logger.LogAttrs(ctx, slog.LevelWarn, "flowfabric: keeper could not look at all keys, it looks again on its next way",
			eventTickFailed.attr(), slog.Any("duties", []Duty{DutyKeyReconciliation}), slog.Any("error", err))
	}
	return nil
}

// step looks at what was found, or for more. It tells whether the way goes on, also when there is an error.
func (s *sweep) step(ctx context.Context) (more bool, mended map[string]int64, err error) {
	if len(s.found) == 0 {
		err = s.scan(ctx)
	}
	mended, fault := s.check(ctx)
	err = errors.Join(err, fault)
	return len(s.nodes) > 0 || len(s.found) > 0, mended, err
}

// scan reads one page of keys.
func (s *sweep) scan(ctx context.Context) error {
	nodes := s.engine.client.Nodes()
	if len(s.nodes) == 0 {
		s.nodes, s.cursor = slices.Sorted(maps.Keys(nodes)), 0
	}
	node := nodes[s.nodes[0]]
	if node == nil { // it has left meanwhile
		s.nodes, s.cursor = s.nodes[1:], 0
		return nil
	}
	keys, next, err := s.scanKeys(ctx, node, s.cursor, s.engine.core.Keys().Prefix()+":*")
	if s.cursor = next; next == 0 || err != nil {
		s.nodes, s.cursor = s.nodes[1:], 0
	}
	for _, key := range keys {
		if p, x, ok := s.sort(key); ok {
			s.found[p] = append(s.found[p], x)
		}
	}
	return err
}

// scanKeys reads one page of the keys of a server that match a pattern.
func (k *Keeper) scanKeys(ctx context.Context, node rueidis.Client, cursor uint64, pattern string) ([]string, uint64, error) {
	if k.engine.inProcess == nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, scanWithin)
		defer cancel()
	}
	page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(pattern).Count(scannedAtOnce).Build()).AsScanEntry()
	if err != nil {
		return nil, 0, fmt.Errorf("go through all keys: %w", enginecore.ConnectError(err))
	}
	return page.Elements, page.Cursor, nil
}

// sort tells what a key is, if it is something to look at.
func (s *sweep) sort(key string) (enginecore.Partition, stray, bool) {
	p, ok := s.byTag[enginecore.TagOf(key)]
	rest, ours := strings.CutPrefix(key, s.engine.core.Keys().Prefix()+":")
	family, name, tagged := strings.Cut(rest, ":"+p.Tag()+":")
	if !ok || !ours || !tagged {
		return p, stray{}, false
	}
	x := stray{name: name}
	switch list, _, _ := strings.Cut(name, ":"); {
	case family == "ffx" && (list == "runs" || list == "tagged_runs"):
		x.kind = "list"
	case family == "ffx" && list == "schedule":
		x.kind, x.name = "schedule", strings.TrimPrefix(name, "schedule:")
		if _, err := enginecore.ParseScheduleID(x.name); err != nil {
			return p, x, false // something that belongs to a schedule
		}
	case family == "idx" && list == "worker":
		x.kind = "worker"
		x.name, ok = strings.CutSuffix(strings.TrimPrefix(name, "worker:"), ":leases")
	case family == "exec":
		x.kind = "execution"
		x.name, ok = strings.CutSuffix(name, ":core")
	case family == "flow":
		x.kind = "flow"
		x.name, ok = strings.CutSuffix(name, ":core")
	}
	return p, x, ok && x.kind != ""
}

// check looks at a part of what was found in each partition.
func (s *sweep) check(ctx context.Context) (map[string]int64, error) {
	partitions := slices.SortedFunc(maps.Keys(s.found), func(a, b enginecore.Partition) int { return int(a.Index) - int(b.Index) })
	calls := make([]enginecore.CheckKeysCall, len(partitions))
	for i, p := range partitions {
		calls[i] = enginecore.CheckKeysCall{Partition: p, Limit: strayPage}
		for _, x := range s.found[p][:min(len(s.found[p]), strayPage)] {
			calls[i].Found = append(calls[i].Found, enginecore.CheckKeysFound{Kind: x.kind, Name: x.name, Cursor: x.cursor})
		}
	}
	answers, err := sendAll(ctx, s.engine.core, calls)
	total := make(map[string]int64)
	for i, a := range answers {
		p := partitions[i]
		if errors.Is(a.err, enginecore.ErrUnavailable) {
			delete(s.found, p)
			continue
		}
		// What cannot be looked at is left to the next way through all keys, so that it does not keep the rest from its turn.
		rest := s.found[p][len(calls[i].Found):]
		for _, left := range a.reply.Left {
			rest = append(rest, stray{left.Kind, left.Name, left.Cursor})
		}
		if s.found[p] = rest; len(rest) == 0 {
			delete(s.found, p)
		}
		for index, n := range s.tellMended(ctx, p, a.reply.Mended) {
			total[index] += n
		}
	}
	return total, err
}
