package header

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// problem is one fault of a header, at a line.
type problem struct {
	pos     Position
	message string
}

// Problems collects faults, so that one run reports all of them.
type Problems struct {
	list []problem
}

func (p *Problems) Add(pos Position, format string, args ...any) {
	p.list = append(p.list, problem{pos, fmt.Sprintf(format, args...)})
}

// Err is nil without a fault, else an error with one line per fault.
func (p *Problems) Err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.pos.File, b.pos.File), cmp.Compare(a.pos.Line, b.pos.Line))
	})
	var b strings.Builder
	for i, x := range p.list {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d: %s", x.pos.File, x.pos.Line, x.message)
	}
	return fmt.Errorf("%s", b.String())
}

// Position names a line of a Lua file in messages.
type Position struct {
	File string
	Line int
}
