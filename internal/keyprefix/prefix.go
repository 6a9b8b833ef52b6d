// Package keyprefix has the rules of the prefix of a deployment, with which all its keys and channels begin.
package keyprefix

import "fmt"

// Default is the prefix of a deployment that names none.
const Default = "ff"

// maxPrefix is the length limit of a prefix.
const maxPrefix = 32

// Check returns an error when text cannot be the prefix of a deployment: every key and channel begins with it and
// a colon, and it has 1 to 32 characters of a-z, 0-9 and -.
func Check(text string) error {
	if text == "" || len(text) > maxPrefix {
		return fmt.Errorf("prefix %q: must have 1 to %d characters", text, maxPrefix)
	}
	for i := range len(text) {
		c := text[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return fmt.Errorf("prefix %q: only a-z, 0-9 and - are allowed", text)
		}
	}
	return nil
}
