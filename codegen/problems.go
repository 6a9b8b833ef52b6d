package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// problem is one fault of a header, at a line.
type problem struct {
	pos     position
	message string
}

// problems collects faults, so that one run reports all of them.
type problems struct {
	list []problem
}

func (p *problems) add(pos position, format string, args ...any) {
	p.list = append(p.list, problem{pos, fmt.Sprintf(format, args...)})
}

// err is nil without a fault, else an error with one line per fault.
func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b problem) int {
		return cmp.Or(cmp.Compare(a.pos.file, b.pos.file), cmp.Compare(a.pos.line, b.pos.line))
	})
	var b strings.Builder
	for i, x := range p.list {
		if i > 0 {
			b.WriteByte('\n')
		}
		fmt.Fprintf(&b, "%s:%d: %s", x.pos.file, x.pos.line, x.message)
	}
	return fmt.Errorf("%s", b.String())
}
