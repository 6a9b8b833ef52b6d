// Package luatext blanks the parts of Lua text that a scan must skip: comments and the contents of strings.
package luatext

import "strings"

// WithoutComments blanks the comments of Lua text and keeps its line breaks.
func WithoutComments(s string) string { return blank(s, true, false) }

// WithoutStrings blanks the contents of string literals and keeps line breaks.
func WithoutStrings(s string) string { return blank(s, false, true) }

func blank(s string, comments, strs bool) string {
	out := []byte(s)
	erase := func(from, to int) {
		for i := from; i < to; i++ {
			if out[i] != '\n' {
				out[i] = ' '
			}
		}
	}
	for i := 0; i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], "--"):
			end := i + 2
			if n, ok := longBracket(s[end:]); ok {
				end += n
			} else if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
				end = i + n
			} else {
				end = len(s)
			}
			if comments {
				erase(i, end)
			}
			i = end
		case s[i] == '\'' || s[i] == '"':
			end := i + 1
			for end < len(s) && s[end] != s[i] && s[end] != '\n' {
				if s[end] == '\\' {
					end++
				}
				end++
			}
			end = min(end, len(s))
			if strs {
				erase(i+1, end)
			}
			i = min(end+1, len(s))
		case s[i] == '[':
			if n, ok := longBracket(s[i:]); ok {
				if strs {
					erase(i, i+n)
				}
				i += n
				continue
			}
			i++
		default:
			i++
		}
	}
	return string(out)
}

// longBracket is the length of a [[…]] or [=[…]=] that s begins with.
func longBracket(s string) (int, bool) {
	if s == "" || s[0] != '[' {
		return 0, false
	}
	level := 0
	for level+1 < len(s) && s[level+1] == '=' {
		level++
	}
	if level+1 >= len(s) || s[level+1] != '[' {
		return 0, false
	}
	closing := "]" + strings.Repeat("=", level) + "]"
	end := strings.Index(s, closing)
	if end < 0 {
		return len(s), true
	}
	return end + len(closing), true
}
