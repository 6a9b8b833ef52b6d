package header

import (
	"fmt"
	"strings"
)

// words splits at spaces outside parentheses, so that `list(a:text b:int)` is one word.
func words(s string) ([]string, error) {
	var out []string
	depth, start := 0, -1
	for i, r := range s {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
			if depth < 0 {
				return nil, fmt.Errorf("a ) without a ( in %q", s)
			}
		}
		space := r == ' ' || r == '\t' || r == '\n'
		switch {
		case space && depth == 0:
			if start >= 0 {
				out = append(out, s[start:i])
				start = -1
			}
		case start < 0:
			start = i
		}
	}
	if depth != 0 {
		return nil, fmt.Errorf("a ( without a ) in %q", s)
	}
	if start >= 0 {
		out = append(out, s[start:])
	}
	return out, nil
}

// isName reports whether s is a lower-case word of the headers.
func isName(s string) bool {
	if s == "" || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '_' {
			return false
		}
	}
	return true
}

// parseFields reads `name:type` words, each possibly followed by `optional`.
func parseFields(list []string) ([]Field, error) {
	var out []Field
	for _, w := range list {
		if w == "optional" {
			if len(out) == 0 {
				return nil, fmt.Errorf("`optional` before any field")
			}
			out[len(out)-1].Optional = true
			continue
		}
		name, typ, ok := strings.Cut(w, ":")
		if !ok || !isName(name) {
			return nil, fmt.Errorf("%q is not name:type", w)
		}
		f, err := parseType(name, typ)
		if err != nil {
			return nil, err
		}
		out = append(out, f)
	}
	seen := map[string]bool{}
	for _, f := range out {
		if seen[f.Name] {
			return nil, fmt.Errorf("field %s is declared twice", f.Name)
		}
		seen[f.Name] = true
	}
	return out, nil
}

func parseType(name, typ string) (Field, error) {
	f := Field{Name: name}
	if t, fallback, ok := strings.Cut(typ, "?="); ok {
		f.Optional, f.Fallback, typ = true, fallback, t
	} else if t, ok := strings.CutSuffix(typ, "?"); ok {
		f.Optional, typ = true, t
	}
	if typ == "pairs" {
		f.Shape = PairsOf
		return f, nil
	}
	head, inner, nested := strings.Cut(typ, "(")
	if !nested {
		if t, slot, ok := strings.Cut(typ, "<"); ok {
			f.Slot, typ = strings.TrimSuffix(slot, ">"), t
		}
		if _, ok := ScalarNamed(typ); !ok {
			return f, fmt.Errorf("unknown type %q of %s", typ, name)
		}
		f.Scalar = typ
		return f, nil
	}
	inner, ok := strings.CutSuffix(inner, ")")
	if !ok {
		return f, fmt.Errorf("type of %s does not end with )", name)
	}
	switch head {
	case "list":
		f.Shape = ListOf
	case "rest":
		f.Shape = RestOf
	case "group":
		f.Shape = GroupOf
	default:
		return f, fmt.Errorf("unknown type %s(…) of %s", head, name)
	}
	list, err := words(inner)
	if err != nil {
		return f, err
	}
	if len(list) == 1 && !strings.Contains(list[0], ":") {
		if _, ok := ScalarNamed(list[0]); ok {
			f.Scalar = list[0]
		} else {
			f.Record = list[0]
		}
		return f, nil
	}
	f.Inline, err = parseFields(list)
	if err == nil && len(f.Inline) == 0 {
		err = fmt.Errorf("%s(…) of %s is empty", head, name)
	}
	return f, err
}

// checkParsed returns an error if the keys of a parsed template cannot be taken apart: each begins with a literal, the
// tag and a literal, and between two parameters there is a literal.
func (t *Template) checkParsed() error {
	if !t.Parsed {
		return nil
	}
	for i, p := range t.Parts {
		if (p.Param == "") != (i%2 == 0) || (p.Param == "tag") != (i == 1) {
			return fmt.Errorf("%s cannot be parsed", t.Pattern())
		}
	}
	return nil
}

// parseTemplate reads a key pattern with {parameters}.
func parseTemplate(pos Position, name, pattern string) (*Template, error) {
	t := &Template{Pos: pos, Name: name}
	for pattern != "" {
		open := strings.IndexByte(pattern, '{')
		if open < 0 {
			t.Parts = append(t.Parts, TemplatePart{Literal: pattern})
			break
		}
		if open > 0 {
			t.Parts = append(t.Parts, TemplatePart{Literal: pattern[:open]})
		}
		end := strings.IndexByte(pattern, '}')
		if end < open {
			return nil, fmt.Errorf("malformed parameter in %q", pattern)
		}
		param, escaped := strings.CutSuffix(pattern[open+1:end], EscapedMark)
		if !isName(param) {
			return nil, fmt.Errorf("malformed parameter in %q", pattern)
		}
		t.Parts = append(t.Parts, TemplatePart{Param: param, Escaped: escaped})
		pattern = pattern[end+1:]
	}
	if len(t.Parts) == 0 || t.Parts[0].Param != "" {
		return nil, fmt.Errorf("a pattern begins with literal text")
	}
	return t, nil
}
