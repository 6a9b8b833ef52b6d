package glob

import "strings"

// Match matches the server's patterns: * ? [a-c] [^a] and backslash escapes.
func Match(pattern, s string) bool {
	if pattern == "*" {
		return true
	}
	if !strings.ContainsAny(pattern, "*?[\\") {
		return pattern == s
	}
	return match(pattern, s)
}

func match(p, s string) bool {
	for len(p) > 0 {
		switch p[0] {
		case '*':
			for len(p) > 1 && p[1] == '*' {
				p = p[1:]
			}
			if len(p) == 1 {
				return true
			}
			for i := 0; i <= len(s); i++ {
				if match(p[1:], s[i:]) {
					return true
				}
			}
			return false
		case '?':
			if s == "" {
				return false
			}
		case '[':
			if s == "" {
				return false
			}
			ok, rest := matchClass(p[1:], s[0])
			if !ok {
				return false
			}
			p, s = rest, s[1:]
			continue
		default:
			if p[0] == '\\' && len(p) > 1 {
				p = p[1:]
			}
			if s == "" || s[0] != p[0] {
				return false
			}
		}
		p, s = p[1:], s[1:]
	}
	return s == ""
}

// matchClass matches c against a bracket class whose '[' has been read and returns the pattern behind it.
func matchClass(p string, c byte) (bool, string) {
	not := len(p) > 0 && p[0] == '^'
	if not {
		p = p[1:]
	}
	match := false
	for len(p) > 0 && p[0] != ']' {
		switch {
		case p[0] == '\\' && len(p) > 1:
			p = p[1:]
			match = match || p[0] == c
		case len(p) >= 3 && p[1] == '-':
			lo, hi := p[0], p[2]
			if lo > hi {
				lo, hi = hi, lo
			}
			match = match || c >= lo && c <= hi
			p = p[2:]
		default:
			match = match || p[0] == c
		}
		p = p[1:]
	}
	if len(p) > 0 {
		p = p[1:]
	}
	return match != not, p
}
