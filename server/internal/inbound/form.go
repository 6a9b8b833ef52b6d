package inbound

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
)

// HasBody reports whether a request has a body.
func HasBody(r *http.Request) bool {
	return r.Body != nil && r.Body != http.NoBody && r.ContentLength != 0
}

// Encoded returns why a request with an encoded body is refused; empty for others.
func Encoded(r *http.Request) string {
	encoding := strings.Join(r.Header.Values("Content-Encoding"), ", ")
	if encoding == "" || strings.EqualFold(encoding, "identity") || !HasBody(r) {
		return ""
	}
	return fmt.Sprintf("the body must not be encoded, got: Content-Encoding %.80q", encoding)
}

// NotJSON returns why a request whose body is not declared as JSON is refused; empty for others. Browsers let pages of
// other origins send other types without a preflight request.
func NotJSON(r *http.Request) string {
	if !HasBody(r) {
		return ""
	}
	sent := r.Header.Values("Content-Type")
	if len(sent) == 1 {
		kind, _, err := mime.ParseMediaType(sent[0])
		if err == nil && (kind == "application/json" ||
			strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json")) {
			return ""
		}
	}
	return fmt.Sprintf("the body must be JSON with the Content-Type application/json, got: %.80q",
		strings.Join(sent, ", "))
}
