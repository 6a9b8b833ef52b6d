package main

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
func parseFields(list []string) ([]field, error) {
	var out []field
	for _, w := range list {
		if w == "optional" {
			if len(out) == 0 {
				return nil, fmt.Errorf("`optional` before any field")
			}
			out[len(out)-1].optional = true
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
		if seen[f.name] {
			return nil, fmt.Errorf("field %s is declared twice", f.name)
		}
		seen[f.name] = true
	}
	return out, nil
}

func parseType(name, typ string) (field, error) {
	f := field{name: name}
	if t, fallback, ok := strings.Cut(typ, "?="); ok {
		f.optional, f.fallback, typ = true, fallback, t
	} else if t, ok := strings.CutSuffix(typ, "?"); ok {
		f.optional, typ = true, t
	}
	if typ == "pairs" {
		f.shape = pairsOf
		return f, nil
	}
	head, inner, nested := strings.Cut(typ, "(")
	if !nested {
		if _, ok := scalarNamed(typ); !ok {
			return f, fmt.Errorf("unknown type %q of %s", typ, name)
		}
		f.scalar = typ
		return f, nil
	}
	inner, ok := strings.CutSuffix(inner, ")")
	if !ok {
		return f, fmt.Errorf("type of %s does not end with )", name)
	}
	switch head {
	case "list":
		f.shape = listOf
	case "rest":
		f.shape = restOf
	case "group":
		f.shape = groupOf
	default:
		return f, fmt.Errorf("unknown type %s(…) of %s", head, name)
	}
	list, err := words(inner)
	if err != nil {
		return f, err
	}
	if len(list) == 1 && !strings.Contains(list[0], ":") {
		if _, ok := scalarNamed(list[0]); ok {
			f.scalar = list[0]
		} else {
			f.record = list[0]
		}
		return f, nil
	}
	f.inline, err = parseFields(list)
	if err == nil && len(f.inline) == 0 {
		err = fmt.Errorf("%s(…) of %s is empty", head, name)
	}
	return f, err
}

// checkParsed returns an error if the keys of a parsed template cannot be taken apart: each begins with a literal, the
// tag and a literal, and between two parameters there is a literal.
func (t *template) checkParsed() error {
	if !t.parsed {
		return nil
	}
	for i, p := range t.parts {
		if (p.param == "") != (i%2 == 0) || (p.param == "tag") != (i == 1) {
			return fmt.Errorf("%s cannot be parsed", t.pattern())
		}
	}
	return nil
}

// parseTemplate reads a key pattern with {parameters}.
func parseTemplate(pos position, name, pattern string) (*template, error) {
	t := &template{pos: pos, name: name}
	for pattern != "" {
		open := strings.IndexByte(pattern, '{')
		if open < 0 {
			t.parts = append(t.parts, templatePart{literal: pattern})
			break
		}
		if open > 0 {
			t.parts = append(t.parts, templatePart{literal: pattern[:open]})
		}
		end := strings.IndexByte(pattern, '}')
		if end < open {
			return nil, fmt.Errorf("malformed parameter in %q", pattern)
		}
		param, escaped := strings.CutSuffix(pattern[open+1:end], escapedMark)
		if !isName(param) {
			return nil, fmt.Errorf("malformed parameter in %q", pattern)
		}
		t.parts = append(t.parts, templatePart{param: param, escaped: escaped})
		pattern = pattern[end+1:]
	}
	if len(t.parts) == 0 || t.parts[0].param != "" {
		return nil, fmt.Errorf("a pattern begins with literal text")
	}
	return t, nil
}
