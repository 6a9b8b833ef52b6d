package flow

import "strconv"

// place is a position in an input. It is formatted only for a fault.
type place struct {
	up    *place
	name  string // empty for an item of a list
	index int
	depth int
}

func (p *place) field(name string) *place { return &place{up: p, name: name, depth: p.depth + 1} }

func (p *place) item(index int) *place { return &place{up: p, index: index, depth: p.depth + 1} }

// String returns the position as a path, such as "input.files[2].shard".
func (p *place) String() string {
	switch {
	case p.up == nil:
		return p.name
	case p.name == "":
		return p.up.String() + "[" + strconv.Itoa(p.index) + "]"
	default:
		return p.up.String() + "." + p.name
	}
}
