package header

import (
	"regexp"
	"strings"
)

// Store is one @store, in the module of its file.
type Store struct {
	pos     Position
	Module  string // the one whose functions give a store and a place in it
	Modules []string
	Calls   []StoreCall
}

type StoreCall struct {
	Pos    Position
	Name   string
	Params []string
}

var callText = regexp.MustCompile(`(?s)^(\w+)\(([^)]*)\)\s+\S`)

// takeStore takes a tag of the declaration of a store; d is the one that the block has begun.
func takeStore(l *Library, d *Store, t Tag, p *Problems) *Store {
	if t.Word == "store" {
		d = &Store{pos: t.Pos, Module: ModuleOf(t.Pos.File), Modules: strings.Fields(t.Text)}
		l.Stores = append(l.Stores, d)
		return d
	}
	m := callText.FindStringSubmatch(t.Text)
	switch {
	case d == nil:
		p.Add(t.Pos, "@call without a @store above it")
	case m == nil:
		p.Add(t.Pos, "@call needs name(parameters) and a description of the function")
	default:
		d.Calls = append(d.Calls, StoreCall{t.Pos, m[1], strings.Fields(strings.ReplaceAll(m[2], ",", " "))})
	}
	return d
}

func (d *Store) Call(name string) *StoreCall {
	for i := range d.Calls {
		if d.Calls[i].Name == name {
			return &d.Calls[i]
		}
	}
	return nil
}

// Fits reports whether a function with these parameters can be called as the store declares it: they have the same
// names in the same order, but for the first, which is the place, and those that are not used (_). The last may be
// missing.
func (c *StoreCall) Fits(params []string) bool {
	for i, name := range params {
		if i >= len(c.Params) || i > 0 && name != "_" && name != c.Params[i] {
			return false
		}
	}
	return true
}
