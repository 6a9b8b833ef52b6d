package conformance

import (
	"bytes"
	"encoding/json"
	"strings"
)

// parseContainer decodes a JSON object or array that makes up the whole text.
func parseContainer(text string) (any, bool) {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || trimmed[0] != '{' && trimmed[0] != '[' {
		return nil, false
	}
	d := json.NewDecoder(strings.NewReader(trimmed))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil || d.More() {
		return nil, false
	}
	return v, true
}

// sameJSON is whether two texts are both JSON objects, or both arrays, with
// equal content.
func sameJSON(a, b string) bool {
	x, ok := parseContainer(a)
	if !ok {
		return false
	}
	y, ok := parseContainer(b)
	return ok && equalJSON(x, y, func(s, t string) bool { return s == t })
}

// equalJSON compares decoded JSON; texts are compared by the function.
func equalJSON(want, got any, text func(want, got string) bool) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for k, v := range w {
			other, ok := g[k]
			if !ok || !equalJSON(v, other, text) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i, v := range w {
			if !equalJSON(v, g[i], text) {
				return false
			}
		}
		return true
	case string:
		g, ok := got.(string)
		return ok && text(w, g)
	case json.Number:
		g, ok := got.(json.Number)
		return ok && (w == g || sameNumber(w.String(), g.String()))
	}
	return want == got
}

// compactJSON renders a value on one line without HTML escapes.
func compactJSON(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
