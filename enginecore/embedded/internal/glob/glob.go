// Package glob matches the patterns of KEYS, SCAN and PSUBSCRIBE.
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

// match tries, where the pattern does not fit, one more byte for the last * only: the part of the pattern before it has
// been found as early as it can be. So a pattern takes at most the time of both lengths multiplied.
func match(p, s string) bool {
	star, from := "", "" // the pattern after the last *, and where it was tried; none was met while isRetried is false
	isRetried := false
	for s != "" || p != "" {
		if p != "" && p[0] == '*' {
			p = p[1:]
			star, from, isRetried = p, s, true
			continue
		}
		if ok, rest := matchByte(p, s); ok {
			p, s = rest, s[1:]
			continue
		}
		if !isRetried || from == "" {
			return false
		}
		from = from[1:]
		p, s = star, from
	}
	return true
}

// matchByte matches the first byte of s and returns the rest of the pattern.
func matchByte(p, s string) (ok bool, rest string) {
	if p == "" || s == "" {
		return false, ""
	}
	switch p[0] {
	case '?':
		return true, p[1:]
	case '[':
		return matchClass(p[1:], s[0])
	case '\\':
		if len(p) > 1 {
			p = p[1:]
		}
	}
	return s[0] == p[0], p[1:]
}

// matchClass matches c against a bracket class whose '[' has been read and returns the pattern after it.
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
