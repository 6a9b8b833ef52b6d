// Package goname makes names of Go from the names in headers.
package goname

import "strings"

var initialisms = map[string]string{
	"api": "API", "id": "ID", "ids": "IDs", "ttl": "TTL", "json": "JSON", "csv": "CSV", "hmac": "HMAC", "kid": "KID",
	"kids": "KIDs", "ok": "OK", "url": "URL", "uuid": "UUID", "hex": "Hex", "dag": "DAG",
}

// Exported turns words joined by `_` or `.` into an exported Go name.
func Exported(name string) string {
	var b strings.Builder
	for word := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '_' || r == '.' || r == '-' || r == ' ' }) {
		word = strings.ToLower(word)
		if s, ok := initialisms[word]; ok {
			b.WriteString(s)
			continue
		}
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

// Unexported is exported with a lower-case first word.
func Unexported(name string) string {
	first, rest, _ := strings.Cut(name, "_")
	s := strings.ToLower(first) + Exported(rest)
	switch s {
	case "func", "type", "range", "map", "var", "const", "package", "default", "go", "select", "case", "return":
		s += "Value"
	}
	return s
}

// LowerFirst turns an exported Go name into an unexported one.
func LowerFirst(s string) string {
	return strings.ToLower(s[:1]) + s[1:]
}

// Field is the Go name of a wire field. The Go types of ms and unix_ms carry the unit already. Every reply has
// a Status, so a field of that name is called StatusText.
func Field(name, typeName string) string {
	if name == "status" {
		return "StatusText"
	}
	if typeName == "ms" || typeName == "unix_ms" {
		name = strings.TrimSuffix(name, "_ms")
	}
	return Exported(name)
}

// Singular cuts the plural of a list field for the name of its element type.
func Singular(name string) string {
	switch {
	case strings.HasSuffix(name, "ies"):
		return strings.TrimSuffix(name, "ies") + "y"
	case strings.HasSuffix(name, "ss"), !strings.HasSuffix(name, "s"):
		return name
	}
	return strings.TrimSuffix(name, "s")
}
