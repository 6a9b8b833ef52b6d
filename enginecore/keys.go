package enginecore

import (
	"fmt"
	"strings"
)

// DefaultPrefix begins every key unless Options say otherwise.
const DefaultPrefix = "ff"

// Keys builds the keys and channel names of one deployment. Every name begins with the prefix and a colon.
// The zero value is not usable; NewKeys makes one.
type Keys struct {
	prefix string
}

// maxPrefix is the length limit of a prefix.
const maxPrefix = 32

// NewKeys returns the key builders of a deployment. A prefix has 1 to 32 characters of a-z, 0-9 and -.
func NewKeys(prefix string) (Keys, error) {
	if prefix == "" || len(prefix) > maxPrefix {
		return Keys{}, fmt.Errorf("prefix %q: must have 1 to %d characters", prefix, maxPrefix)
	}
	for i := range len(prefix) {
		c := prefix[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return Keys{}, fmt.Errorf("prefix %q: only a-z, 0-9 and - are allowed", prefix)
		}
	}
	return Keys{prefix}, nil
}

// Prefix is what every key begins with, without the colon.
func (k Keys) Prefix() string { return k.prefix }

// escapePart writes a part of a key without colons, as key.escape of the library does: different texts stay different.
func escapePart(text string) string {
	if !strings.ContainsAny(text, ":%") {
		return text
	}
	return strings.ReplaceAll(strings.ReplaceAll(text, "%", "%25"), ":", "%3A")
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
