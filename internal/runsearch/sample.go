package runsearch

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// Bounds of a sample.
const (
	maxTagNames  = 64
	maxTagValues = 100
)

// Sample has the flows that have runs, and tags of the newest runs of each flow in each partition: all keys that flows
// use, except those that only older runs have.
type Sample struct {
	Flows []string
	// Tags has the values of each key.
	Tags map[string][]string
}

// TagNames are the keys of tags, at most 64.
func (s Sample) TagNames() []string {
	names := slices.Sorted(maps.Keys(s.Tags))
	return names[:min(len(names), maxTagNames)]
}

// sampleOf reads a sample of a namespace from all partitions, in one round.
func sampleOf(ctx context.Context, s *engine.Session, namespace keyspace.Namespace) (Sample, error) {
	replies, err := engine.InAllPartitions(ctx, s, func(p keyspace.Partition) enginerpc.SampleTagsCall {
		return enginerpc.SampleTagsCall{Partition: p, Namespace: string(namespace)}
	})
	if err != nil {
		return Sample{}, err
	}
	sample, flows := Sample{Tags: make(map[string][]string)}, make(map[string]bool)
	for _, reply := range replies {
		for _, tag := range reply.Tags {
			flows[tag.FlowName] = true
			values := sample.Tags[tag.Name]
			if tag.Name == "" || len(values) >= maxTagValues || slices.Contains(values, tag.Value) {
				continue
			}
			sample.Tags[tag.Name] = append(values, tag.Value)
		}
	}
	sample.Flows = slices.Sorted(maps.Keys(flows))
	return sample, nil
}

// maxCompletions is the most completions of a word.
const maxCompletions = 20

// Complete returns words that begin with the last word of a search, for people who type it: names and states, keys of
// tags and their values, and flows. Values and keys come from the newest runs of each flow.
func Complete(ctx context.Context, s *engine.Session, typed string) ([]string, error) {
	sample, err := sampleOf(ctx, s, s.Namespace)
	if err != nil {
		return nil, err
	}
	return sample.complete(typed), nil
}

func (s Sample) complete(typed string) []string {
	name, begun, hasName := strings.Cut(typed, ":")
	var from []string
	switch {
	case !hasName:
		return s.completeName(typed)
	case name == "flow":
		from = s.Flows
	case name == "is":
		from = []string{"child", "queued"}
	case name == "state":
		for _, state := range States {
			from = append(from, string(state))
		}
	case name == "created" || name == "finished":
		from = []string{"today", "yesterday"}
	default:
		from = slices.Sorted(slices.Values(s.Tags[name]))
	}
	var found []string
	for _, value := range from {
		if strings.HasPrefix(strings.ToLower(value), strings.ToLower(begun)) && len(found) < maxCompletions {
			found = append(found, name+":"+quoted(value))
		}
	}
	return found
}

// completeName completes a word without a colon.
func (s Sample) completeName(typed string) []string {
	var found []string
	add := func(word, matched string) {
		if strings.HasPrefix(strings.ToLower(matched), strings.ToLower(typed)) && len(found) < maxCompletions {
			found = append(found, word)
		}
	}
	for _, state := range States {
		add(string(state), string(state))
	}
	for _, word := range []string{"today", "yesterday"} {
		add(word, word)
	}
	for _, name := range s.TagNames() {
		add(name+":", name)
	}
	for _, flow := range s.Flows {
		add("flow:"+flow, flow)
	}
	for _, name := range WordNames {
		add(name+":", name)
	}
	for _, name := range s.TagNames() {
		for _, value := range slices.Sorted(slices.Values(s.Tags[name])) {
			if typed != "" {
				add(name+":"+quoted(value), value)
			}
		}
	}
	return found
}

// quoted returns a value as a search takes it.
func quoted(value string) string {
	if value == "" || strings.ContainsAny(value, " \t") {
		return `"` + value + `"`
	}
	return value
}
