package flowgraph

import "strconv"

// Position is a position in an input. It is formatted only for a fault.
type Position struct {
	up    *Position
	Name  string // empty for an item of a list
	index int
	Depth int
}

// Field returns the position of a field.
func (p *Position) Field(name string) *Position {
	return &Position{up: p, Name: name, Depth: p.Depth + 1}
}

// Item returns the position of an item of a list.
func (p *Position) Item(index int) *Position {
	return &Position{up: p, index: index, Depth: p.Depth + 1}
}

// String returns the position as a path, such as "input.files[2].shard".
func (p *Position) String() string {
	switch {
	case p.up == nil:
		return p.Name
	case p.Name == "":
		return p.up.String() + "[" + strconv.Itoa(p.index) + "]"
	default:
		return p.up.String() + "." + p.Name
	}
}
