package invariant

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/redis/rueidis"
)

// value is the content of one key. Only the field for its type is set.
type value struct {
	kind   string
	text   string
	hash   map[string]string
	set    map[string]bool
	scores map[string]float64
	list   []string
	stream []entry
}

// entry is one entry of a stream.
type entry struct {
	id     string
	fields []rueidis.XRangeFieldValue
}

// get is the value of the first field with a name, "" without one.
func (e entry) get(name string) string {
	for _, f := range e.fields {
		if f.Field == name {
			return f.Value
		}
	}
	return ""
}

// Snapshot is a keyspace as it was read.
type Snapshot struct {
	prefix     string
	values     map[string]value
	partitions map[string]*partition
	// unsettled are the partitions that changed whenever they were read.
	unsettled []string
	faults    []Violation // found while sorting the keys
}

// readBatch bounds the commands that are sent together.
const readBatch = 500

// stableReads bounds how often a partition is read until it no longer changes.
const stableReads = 25

// gone is the kind of a key that was listed, but no longer existed when it was read. A reading with such a key does not
// agree with a reading that did not list it: the key existed in between, and so did the keys that belong to it.
const gone = "gone"

// Unsettled lists the partitions that kept changing and are therefore missing.
func (s *Snapshot) Unsettled() []string { return s.unsettled }

// Keys is the number of keys that were read.
func (s *Snapshot) Keys() int { return len(s.values) }

// KeyNames lists the keys that were read.
func (s *Snapshot) KeyNames() []string {
	names := make([]string, 0, len(s.values))
	for key := range s.values {
		names = append(names, key)
	}
	sort.Strings(names)
	return names
}

// tagOf is the hash tag of a key, or "".
func tagOf(key string) string {
	_, rest, found := strings.Cut(key, "{")
	if !found {
		return ""
	}
	inner, _, found := strings.Cut(rest, "}")
	if !found {
		return ""
	}
	return "{" + inner + "}"
}

// isAuditLog reports whether a key is an audit log. No other record depends on an audit log, and it keeps growing while
// a test calls keeper tasks directly.
func isAuditLog(key string) bool { return strings.Contains(key, "}:audit_log:") }

// byTag groups keys by the units that are read until they agree: by their hash tags, or all flow partitions together.
func byTag(values map[string]value, together bool) map[string]map[string]value {
	out := make(map[string]map[string]value)
	for key, v := range values {
		if isAuditLog(key) {
			continue
		}
		tag := settlesWith(key, together)
		if out[tag] == nil {
			out[tag] = make(map[string]value)
		}
		out[tag][key] = v
	}
	return out
}

func readOnce(ctx context.Context, client rueidis.Client, prefix string) (map[string]value, error) {
	keys, err := Keys(ctx, client, prefix)
	if err != nil {
		return nil, err
	}
	values := make(map[string]value, len(keys))
	for len(keys) > 0 {
		n := min(readBatch, len(keys))
		if err := readKeys(ctx, client, keys[:n], values); err != nil {
			return nil, err
		}
		keys = keys[n:]
	}
	return values, nil
}

// Keys lists the keys that begin with a prefix, in order.
func Keys(ctx context.Context, client rueidis.Client, prefix string) ([]string, error) {
	seen := make(map[string]bool)
	for _, node := range client.Nodes() {
		var cursor uint64
		for {
			page, err := node.Do(ctx, node.B().Scan().Cursor(cursor).Match(prefix+":*").Count(1000).Build()).AsScanEntry()
			if err != nil {
				return nil, fmt.Errorf("scan keys of %s: %w", prefix, err)
			}
			for _, key := range page.Elements {
				seen[key] = true
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	keys := make([]string, 0, len(seen))
	for key := range seen {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys, nil
}

// readKeys reads a batch of keys.
func readKeys(ctx context.Context, client rueidis.Client, keys []string, values map[string]value) error {
	types := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		types[i] = client.B().Type().Key(key).Build()
	}
	kinds := make([]string, len(keys))
	for i, result := range client.DoMulti(ctx, types...) {
		kind, err := result.ToString()
		if err != nil {
			return fmt.Errorf("type of %s: %w", keys[i], err)
		}
		kinds[i] = kind
	}
	var reads []rueidis.Completed
	var wanted []int
	for i, key := range keys {
		if read, ok := readCommand(client, key, kinds[i]); ok {
			reads = append(reads, read)
			wanted = append(wanted, i)
		} else if kinds[i] == "none" {
			values[key] = value{kind: gone}
		}
	}
	for j, result := range client.DoMulti(ctx, reads...) {
		i := wanted[j]
		v, err := parseValue(result, kinds[i])
		if rueidis.IsRedisNil(err) || err == nil && v.isEmpty() {
			v, err = value{kind: gone}, nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", keys[i], err)
		}
		values[keys[i]] = v
	}
	return nil
}

// isEmpty reports whether a key cannot have the value: it has been deleted since its type was read.
func (v value) isEmpty() bool {
	switch v.kind {
	case "hash", "set", "zset", "list":
		return len(v.hash)+len(v.set)+len(v.scores)+len(v.list) == 0
	}
	return false
}

func readCommand(client rueidis.Client, key, kind string) (rueidis.Completed, bool) {
	b := client.B()
	switch kind {
	case "string":
		return b.Get().Key(key).Build(), true
	case "hash":
		return b.Hgetall().Key(key).Build(), true
	case "set":
		return b.Smembers().Key(key).Build(), true
	case "zset":
		return b.Zrange().Key(key).Min("0").Max("-1").Withscores().Build(), true
	case "list":
		return b.Lrange().Key(key).Start(0).Stop(-1).Build(), true
	case "stream":
		return b.Xrange().Key(key).Start("-").End("+").Build(), true
	}
	return rueidis.Completed{}, false
}

func parseValue(r rueidis.RedisResult, kind string) (value, error) {
	v := value{kind: kind}
	var err error
	switch kind {
	case "string":
		v.text, err = r.ToString()
	case "hash":
		v.hash, err = r.AsStrMap()
	case "set":
		var members []string
		members, err = r.AsStrSlice()
		v.set = make(map[string]bool, len(members))
		for _, m := range members {
			v.set[m] = true
		}
	case "zset":
		var scored []rueidis.ZScore
		scored, err = r.AsZScores()
		v.scores = make(map[string]float64, len(scored))
		for _, m := range scored {
			v.scores[m.Member] = m.Score
		}
	case "list":
		v.list, err = r.AsStrSlice()
	case "stream":
		var entries []rueidis.XRangeSlice
		entries, err = r.AsXRangeSlices()
		for _, e := range entries {
			v.stream = append(v.stream, entry{e.ID, e.FieldValues})
		}
	}
	return v, err
}
