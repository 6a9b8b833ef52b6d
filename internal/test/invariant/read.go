package invariant

import (
	"context"
	"maps"
	"reflect"
	"sort"

	"github.com/redis/rueidis"
)

// Read reads all keys with a prefix. It accepts a partition once two consecutive readings agree, so that related keys
// are consistent although they are read one by one. Unsettled lists partitions that never settled.
func Read(ctx context.Context, client rueidis.Client, prefix string) (*Snapshot, error) {
	before, err := readOnce(ctx, client, prefix)
	if err != nil {
		return nil, err
	}
	settled := make(map[string]value, len(before))
	open := map[string]bool{}
	together := sharesLanes(before)
	for tag := range byTag(before, together) {
		open[tag] = true
	}
	for range stableReads {
		after, err := readOnce(ctx, client, prefix)
		if err != nil {
			return nil, err
		}
		if !together && sharesLanes(after) {
			return Read(ctx, client, prefix) // the first lane has come into use
		}
		old, now := byTag(before, together), byTag(after, together)
		for tag := range now {
			if _, known := old[tag]; !known {
				open[tag] = true
			}
		}
		for tag := range open {
			if reflect.DeepEqual(old[tag], now[tag]) {
				for key, v := range now[tag] {
					settled[key] = v
				}
				delete(open, tag)
			}
		}
		if len(open) == 0 {
			break
		}
		before = after
	}
	for key, v := range before {
		if isAuditLog(key) {
			settled[key] = v
		}
	}
	s := newSnapshot(prefix, settled)
	for tag := range open {
		s.unsettled = append(s.unsettled, tag)
	}
	sort.Strings(s.unsettled)
	return s, nil
}

// ReadStill reads every key of a prefix once, which suffices if nothing changes during the call.
func ReadStill(ctx context.Context, client rueidis.Client, prefix string) (*Snapshot, error) {
	values, err := readOnce(ctx, client, prefix)
	if err != nil {
		return nil, err
	}
	return newSnapshot(prefix, values), nil
}

func newSnapshot(prefix string, values map[string]value) *Snapshot {
	maps.DeleteFunc(values, func(_ string, v value) bool { return v.kind == gone })
	s := &Snapshot{prefix: prefix, values: values, partitions: make(map[string]*partition)}
	for key, v := range values {
		if fault := s.sort(key, v); fault != "" {
			s.faults = append(s.faults, Violation{RuleKeys, key, fault})
		}
	}
	s.spreadLanes()
	for _, p := range s.partitions {
		s.fillRows(p)
		for _, f := range p.flows {
			if f.run != nil {
				p.fillEdges(f)
			}
		}
	}
	return s
}
