package conformance

import (
	"fmt"
	"maps"
	"slices"
)

// storedJSON is a key's content as traces write it.
type storedJSON struct {
	Type      string            `json:"type"`
	ExpiresAt string            `json:"expires_at"`
	String    string            `json:"string"`
	Fields    map[string]string `json:"fields"`
	Members   []string          `json:"members"`
	Entries   []entry           `json:"entries"`
}

// keyDelta is the change of one key by a step.
type keyDelta struct {
	Deleted bool        `json:"deleted"`
	Whole   *storedJSON `json:"whole"`

	Type      string            `json:"type"`
	Set       map[string]string `json:"set"`
	Unset     []string          `json:"unset"`
	Append    []entry           `json:"append"`
	ExpiresAt *string           `json:"expires_at"`
}

// entry is one entry of a stream.
type entry struct {
	ID     string   `json:"id"`
	Fields []string `json:"fields"`
}

// A value is the content of one key: templates in the model, concrete texts
// when read from a server. Values are never changed once they are in a
// keyspace, so keyspaces can share them.
type value struct {
	typ     string
	expires string // absolute, in ms; empty: never
	str     string
	fields  map[string]string // hash fields, members with scores, or members alone
	entries []entry
}

// keyspace is the content of a database.
type keyspace map[string]*value

func newValue(s *storedJSON) *value {
	v := &value{typ: s.Type, expires: s.ExpiresAt, str: s.String, fields: s.Fields, entries: s.Entries}
	if s.Type == "set" {
		v.fields = make(map[string]string, len(s.Members))
		for _, m := range s.Members {
			v.fields[m] = ""
		}
	}
	return v
}

func newKeyspace(state map[string]*storedJSON) keyspace {
	ks := make(keyspace, len(state))
	for key, s := range state {
		ks[key] = newValue(s)
	}
	return ks
}

// apply changes the keyspace by a delta.
func (ks keyspace) apply(delta map[string]*keyDelta) error {
	for key, d := range delta {
		switch {
		case d.Deleted:
			delete(ks, key)
		case d.Whole != nil:
			ks[key] = newValue(d.Whole)
		default:
			v, err := ks[key].changed(d)
			if err != nil {
				return fmt.Errorf("delta of %s: %w", key, err)
			}
			if v == nil {
				delete(ks, key)
			} else {
				ks[key] = v
			}
		}
	}
	return nil
}

// changed returns a changed copy, nil when nothing is left of the key.
func (v *value) changed(d *keyDelta) (*value, error) {
	n := &value{typ: d.Type}
	if v != nil {
		if v.typ != d.Type {
			return nil, fmt.Errorf("a %s cannot be changed as a %s", v.typ, d.Type)
		}
		*n = *v
	}
	if d.ExpiresAt != nil {
		n.expires = *d.ExpiresAt
	}
	if len(d.Set)+len(d.Unset) > 0 {
		n.fields = maps.Clone(n.fields)
		if n.fields == nil {
			n.fields = map[string]string{}
		}
		maps.Copy(n.fields, d.Set)
		for _, f := range d.Unset {
			delete(n.fields, f)
		}
	}
	n.entries = append(slices.Clip(n.entries), d.Append...)
	if len(n.fields) == 0 && (n.typ == "hash" || n.typ == "zset" || n.typ == "set") {
		return nil, nil
	}
	return n, nil
}

// escaped writes a concrete value as templates that fit only it.
func (v *value) escaped() *value {
	n := &value{typ: v.typ, expires: v.expires, str: escape(v.str)}
	if v.fields != nil {
		n.fields = make(map[string]string, len(v.fields))
		for f, s := range v.fields {
			n.fields[f] = escape(s)
		}
	}
	for _, e := range v.entries {
		n.entries = append(n.entries, entry{ID: e.ID, Fields: mapTexts(e.Fields, escape)})
	}
	return n
}

func mapTexts(in []string, f func(string) string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = f(s)
	}
	return out
}
