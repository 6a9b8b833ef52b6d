package header

import (
	"slices"
	"strings"
)

// resolve replaces references to records, argument sets and error sets by their definitions.
func resolve(l *Library, p *Problems) {
	for _, f := range l.Functions {
		for i := range f.Args {
			a := &f.Args[i]
			switch {
			case a.Kind == ArgInclude:
				if s := l.argumentSet(a.Set); s != nil {
					a.Fields = s.Fields
				} else {
					p.Add(a.Pos, "no @arguments %s", a.Set)
				}
			case a.Set != "":
				if r := l.Record(a.Set); r != nil {
					a.Fields = r.Fields
				} else {
					p.Add(a.Pos, "no @record %s", a.Set)
				}
			}
		}
		var errs []ErrorDecl
		for _, e := range f.Errors {
			name, isSet := strings.CutPrefix(e.Code, "set:")
			if !isSet {
				errs = append(errs, e)
				continue
			}
			s := l.errorSet(name)
			if s == nil {
				p.Add(e.Pos, "no @errors %s", name)
				continue
			}
			for _, x := range s.errors {
				x.Pos = e.Pos
				errs = append(errs, x)
			}
		}
		f.Errors = nil
		for _, e := range errs {
			if !slices.ContainsFunc(f.Errors, func(o ErrorDecl) bool { return o.Code == e.Code }) {
				f.Errors = append(f.Errors, e)
			}
		}
	}
}
