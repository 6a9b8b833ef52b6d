package enginerpc

import (
	"strings"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// Keys builds the keys and channel names of one deployment. Every name begins with the prefix and a colon.
// The zero value is not usable; NewKeys makes one.
type Keys struct {
	prefix string
}

// NewKeys returns the key builders of a deployment. The error is that of CheckPrefix.
func NewKeys(prefix string) (Keys, error) {
	if err := enginecore.CheckPrefix(prefix); err != nil {
		return Keys{}, err
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
