package enginerpc

import (
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
)

// Keys builds the keys and channel names of one deployment. Every name begins with the prefix and a colon.
// The zero value is not usable; NewKeys makes one.
type Keys struct {
	prefix string
}

// NewKeys returns the key builders of a deployment. The error comes from CheckPrefix.
func NewKeys(prefix string) (Keys, error) {
	if err := keyprefix.Check(prefix); err != nil {
		return Keys{}, err
	}
	return Keys{prefix}, nil
}

// Prefix is the beginning of every key, without the colon.
func (k Keys) Prefix() string { return k.prefix }

// escapePart writes a part of a key without colons, as key.escape of the library does: different texts stay different.
func escapePart(text string) string {
	if !strings.ContainsAny(text, ":%") {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "%", "%25"), ":", "%3A")
}

// unescapePart returns the text that escapePart wrote.
func unescapePart(part string) string {
	if !strings.Contains(part, "%") {
		return part
	}
	return strings.ReplaceAll(strings.ReplaceAll(part, "%3A", ":"), "%25", "%")
}

// cutTag returns the hash tag of a key that begins with the prefix and head, and the rest of the key after the tag.
func (k Keys) cutTag(key, head string) (tag, rest string, ok bool) {
	if rest, ok = strings.CutPrefix(key, k.prefix); !ok {
		return "", "", false
	}
	if rest, ok = strings.CutPrefix(rest, head); !ok || !strings.HasPrefix(rest, "{") {
		return "", "", false
	}
	end := strings.IndexByte(rest, '}') + 1
	return rest[:end], rest[end:], end > 0
}

// NameOf is the part of a key after its hash tag and a colon; "" if there is none. In the lists of one family and
// partition it is different for each.
func NameOf(key string) string {
	_, name, _ := strings.Cut(key, TagOf(key)+":")
	return name
}

// TagOf is the hash tag of a key with its braces, or "" when it has none. Keys with one tag live in one
// cluster slot.
func TagOf(key string) string {
	open := strings.IndexByte(key, '{')
	if open < 0 {
		return ""
	}
	length := strings.IndexByte(key[open:], '}')
	if length < 2 {
		return ""
	}
	return key[open : open+length+1]
}
