package conformance

import (
	"context"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// restore writes the recorded content of keys that differ from it. Matching texts are kept, so that related times stay
// consistent.
func (p *player) restore(ctx context.Context, keys []string) error {
	sort.Slice(keys, func(i, j int) bool {
		// Records before everything that repeats their token.
		a, b := isRecord(keys[i]), isRecord(keys[j])
		return a != b && a || a == b && keys[i] < keys[j]
	})
	var commands [][]string
	for _, key := range keys {
		want := p.model[key]
		if want != nil && p.runningOut(want.expires) && p.live[key] == nil {
			continue
		}
		v, err := p.concrete(key, want, p.live[key])
		if err != nil {
			return fmt.Errorf("restoring %s: %w", key, err)
		}
		commands = append(commands, rewrite(key, p.live[key], v)...)
		if v == nil {
			delete(p.live, key)
		} else {
			p.live[key] = v
		}
	}
	for i, result := range p.store.doMulti(ctx, commands) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("restoring with %q: %w", commands[i], err)
		}
	}
	return nil
}

// concrete makes a value of the model concrete, keeping the texts of the
// present value that fit.
func (p *player) concrete(key string, want, have *value) (*value, error) {
	if want == nil {
		return nil, nil
	}
	if have == nil || have.typ != want.typ {
		have = &value{}
	}
	v := &value{typ: want.typ}
	var err error
	text := func(want, have string, exists bool) string {
		if exists && p.fitsText(want, have, nil) {
			return have
		}
		s, e := p.concreteText(want)
		if e != nil {
			err = e
		}
		return s
	}
	v.expires = text(want.expires, have.expires, have.expires != "")
	v.str = text(want.str, have.str, have.typ == "string")
	if want.fields != nil {
		v.fields = make(map[string]string, len(want.fields))
	}
	var signed []string
	for field, w := range want.fields {
		h, ok := have.fields[field]
		if _, token := tokenKID(w); token && want.typ == "hash" && isRecord(key) {
			signed = append(signed, field)
			continue
		}
		v.fields[field] = text(w, h, ok)
	}
	for _, field := range signed {
		kid, _ := tokenKID(want.fields[field])
		if h, ok := have.fields[field]; ok && p.fitsText(want.fields[field], h, v.fields) {
			v.fields[field] = h
			continue
		}
		v.fields[field] = p.tokens.mint(kid, p.storedSecret(key, kid), v.fields)
	}
	if want.typ == "stream" {
		v.entries, err = p.concreteEntries(want.entries, have.entries)
	}
	return v, err
}

func (p *player) concreteText(template string) (string, error) {
	if kid, ok := tokenKID(template); ok {
		return p.tokenFor(kid, nil)
	}
	return p.scope.render(template)
}

// storedSecret is the secret that the recorded side has for a key id in the
// partition of a record.
func (p *player) storedSecret(record, kid string) string {
	tag, _, ok := strings.Cut(strings.TrimPrefix(record, recordPrefix), "}")
	if !ok {
		return ""
	}
	for key, v := range p.model {
		if strings.HasPrefix(key, secretPrefix+tag+"}") {
			if secret, ok := v.fields["secret:"+kid]; ok && isLiteral(secret) {
				return secret
			}
		}
	}
	return ""
}

// tokenFor finds the token that a text outside a record repeats: the token of a record that the present step wrote, or
// of a record whose id is among the hints.
func (p *player) tokenFor(kid string, hints []any) (string, error) {
	match := func(key string) string {
		v := p.live[key]
		if v == nil || !isRecord(key) || p.model[key] == nil {
			return ""
		}
		for field, w := range p.model[key].fields {
			if k, ok := tokenKID(w); ok && k == kid {
				return v.fields[field]
			}
		}
		return ""
	}
	for key := range p.step.Delta {
		if token := match(key); token != "" {
			return token, nil
		}
	}
	for key, v := range p.live {
		for _, hint := range hints {
			if id, ok := hint.(string); ok && id != "" && isRecord(key) && v.fields["waitpoint_id"] == id {
				if token := match(key); token != "" {
					return token, nil
				}
			}
		}
	}
	return "", fmt.Errorf("no record has the token of key id %q", kid)
}

// concreteEntries keeps the ids that fit and gives the other entries ids that
// grow.
func (p *player) concreteEntries(want, have []entry) ([]entry, error) {
	out := make([]entry, len(want))
	var lastMS, lastSeq int64
	for i, w := range want {
		var id string
		var err error
		if i < len(have) && p.scope.fits(w.ID, have[i].ID) {
			id = have[i].ID
		} else if id, err = p.scope.render(w.ID); err != nil {
			return nil, err
		}
		ms, seq, _ := strings.Cut(id, "-")
		m, err := strconv.ParseInt(ms, 10, 64)
		if err != nil {
			return nil, err
		}
		s, _ := strconv.ParseInt(seq, 10, 64)
		if m < lastMS || m == lastMS && s <= lastSeq {
			m, s = lastMS, lastSeq+1
		}
		lastMS, lastSeq = m, s
		out[i].ID = fmt.Sprintf("%d-%d", m, s)
		for j, f := range w.Fields {
			if i < len(have) && j < len(have[i].Fields) && len(have[i].Fields) == len(w.Fields) &&
				p.fitsText(f, have[i].Fields[j], nil) {
				out[i].Fields = append(out[i].Fields, have[i].Fields[j])
				continue
			}
			text, err := p.concreteText(f)
			if err != nil {
				return nil, err
			}
			out[i].Fields = append(out[i].Fields, text)
		}
	}
	return out, nil
}

// rewrite returns the commands that turn one content of a key into another.
func rewrite(key string, have, want *value) [][]string {
	if want == nil {
		if have == nil {
			return nil
		}
		return [][]string{{"DEL", key}}
	}
	var commands [][]string
	if have == nil || have.typ != want.typ || want.typ == "stream" {
		if have != nil {
			commands = append(commands, []string{"DEL", key})
		}
		have = &value{}
	}
	switch want.typ {
	case "string":
		if have.typ == "" || have.str != want.str {
			commands = append(commands, []string{"SET", key, want.str, "KEEPTTL"})
		}
	case "stream":
		for _, e := range want.entries {
			commands = append(commands, append([]string{"XADD", key, e.ID}, e.Fields...))
		}
		if len(want.entries) == 0 {
			commands = append(commands, []string{"XADD", key, "0-1", "f", "v"}, []string{"XTRIM", key, "MAXLEN", "0"})
		}
	default:
		commands = append(commands, rewriteFields(key, want.typ, have.fields, want.fields)...)
	}
	if want.expires != have.expires {
		if want.expires == "" {
			commands = append(commands, []string{"PERSIST", key})
		} else {
			commands = append(commands, []string{"PEXPIREAT", key, want.expires})
		}
	}
	return commands
}

// maxWords bounds one command of a rewrite.
const maxWords = 1000

func rewriteFields(key, typ string, have, want map[string]string) [][]string {
	words := map[string][2]string{"hash": {"HSET", "HDEL"}, "zset": {"ZADD", "ZREM"}, "set": {"SADD", "SREM"}}[typ]
	add, remove := []string{words[0], key}, []string{words[1], key}
	var commands [][]string
	flush := func(command *[]string, atLeast int) {
		if len(*command) > atLeast {
			commands = append(commands, *command)
			*command = slices.Clone((*command)[:2])
		}
	}
	// Additions first: a key that loses all its fields loses its expiry too.
	for field, w := range want {
		if h, ok := have[field]; ok && h == w {
			continue
		}
		switch typ {
		case "hash":
			add = append(add, field, w)
		case "zset":
			add = append(add, w, field)
		case "set":
			add = append(add, field)
		}
		flush(&add, maxWords)
	}
	flush(&add, 2)
	for field := range have {
		if _, ok := want[field]; !ok {
			remove = append(remove, field)
			flush(&remove, maxWords)
		}
	}
	flush(&remove, 2)
	return commands
}
