// Package dump writes values as the commands that rebuild them, for snapshots and DUMP.
package dump

import (
	"errors"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/datatype"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/numfmt"
	"github.com/flowfabric/flowfabric-go/enginecore/embedded/internal/record"
)

// Commands that only dumps hold, because no client command rebuilds a stream with its nodes.
const (
	dumpOnly   = "\x00"
	streamVerb = dumpOnly + "STREAM" // key, last id, greatest deleted id, entries ever added
	// nodeVerb has: key, first id, deleted, bytes, number of names, names …, then per entry: id, number of words, words
	// …
	nodeVerb = dumpOnly + "NODE"
)

// Keys writes the commands that rebuild all keys.
func Keys(w *record.Writer, s *keyspace.Store) {
	s.Keys.Each(func(key string, ent *keyspace.Entry) bool {
		Value(w, key, ent)
		return w.Err() == nil
	})
}

// Value writes the commands that rebuild the value of a key and its deadline.
func Value(w *record.Writer, key string, ent *keyspace.Entry) {
	switch v := ent.Val.(type) {
	case string:
		w.Add("SET", key, v)
	case *datatype.Bytes:
		w.Add("SET", key, v.View())
	case *datatype.Hash:
		items := make([]string, 0, 2*v.Len())
		v.Each(func(f, s string) bool { items = append(items, f, s); return true })
		w.AddItems("HSET", key, items)
	case *datatype.Set:
		w.AddItems("SADD", key, v.Keys())
	case *datatype.List:
		w.AddItems("RPUSH", key, v.Items())
	case *datatype.SortedSet:
		items := make([]string, 0, 2*v.Len())
		v.Each(func(m string, s float64) bool { items = append(items, numfmt.FormatScore(s), m); return true })
		w.AddItems("ZADD", key, items)
	case *datatype.Stream:
		w.Add(streamVerb, key, v.LastID.String(), v.MaxDeletedID.String(), strconv.FormatUint(v.Added, 10))
		for _, n := range v.Nodes {
			writeNode(w, key, n)
		}
	}
	if ent.ExpireAt != 0 {
		w.Add("PEXPIREAT", key, strconv.FormatInt(ent.ExpireAt, 10))
	}
}

func writeNode(w *record.Writer, key string, n *datatype.StreamNode) {
	first := datatype.StreamID{Ms: n.FirstMs, Seq: n.First}
	words := []string{
		nodeVerb, key, first.String(), strconv.Itoa(n.Deleted), strconv.Itoa(n.Bytes), strconv.Itoa(len(n.Master)),
	}
	words = append(words, n.Master...)
	for _, e := range n.Entries {
		words = append(words, e.ID.String(), strconv.Itoa(len(e.Fields)))
		words = append(words, e.Fields...)
	}
	w.Add(words...)
}

// Only reports whether a command, given by its first word, exists in dumps only: Restore runs it.
func Only(verb string) bool { return strings.HasPrefix(verb, dumpOnly) }

var errMalformed = errors.New("snapshot entry is malformed")

// Restore runs a command that exists in dumps only.
func Restore(s *keyspace.Store, words []string) error {
	switch {
	case words[0] == streamVerb && len(words) == 5:
		last, ok1 := datatype.ParseStreamID(words[2], 0)
		deleted, ok2 := datatype.ParseStreamID(words[3], 0)
		added, err := strconv.ParseUint(words[4], 10, 64)
		if !ok1 || !ok2 || err != nil {
			return errMalformed
		}
		s.Put(words[1], &datatype.Stream{LastID: last, MaxDeletedID: deleted, Added: added})
		return nil
	case words[0] == nodeVerb && len(words) > 6:
		stream, ok := keyspace.Get[datatype.Stream](s, words[1])
		if !ok || stream == nil {
			return errMalformed
		}
		return restoreNode(stream, words[2:])
	}
	return errMalformed
}

// restoreNode appends a node as writeNode wrote it.
func restoreNode(s *datatype.Stream, words []string) error {
	first, ok := datatype.ParseStreamID(words[0], 0)
	deleted, err1 := strconv.Atoi(words[1])
	size, err2 := strconv.Atoi(words[2])
	names, err3 := strconv.Atoi(words[3])
	words = words[4:]
	if !ok || err1 != nil || err2 != nil || err3 != nil || names < 0 || names > len(words) {
		return errMalformed
	}
	n := &datatype.StreamNode{
		FirstMs: first.Ms, First: first.Seq, Deleted: deleted, Bytes: size, Master: words[:names:names],
	}
	words = words[names:]
	for len(words) > 0 {
		if len(words) < 2 {
			return errMalformed
		}
		id, ok := datatype.ParseStreamID(words[0], 0)
		count, err := strconv.Atoi(words[1])
		if !ok || err != nil || count < 0 || count > len(words)-2 {
			return errMalformed
		}
		n.Entries = append(n.Entries, datatype.StreamEntry{ID: id, Fields: words[2 : 2+count : 2+count]})
		words = words[2+count:]
	}
	if len(n.Entries) == 0 {
		return errMalformed
	}
	s.Nodes = append(s.Nodes, n)
	s.Length += len(n.Entries)
	return nil
}
