package errorwords

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
	"unicode"
)

const (
	// Most is the most words of one text that are indexed: the last ones, since errors in Go end with their cause.
	Most = 16
	// longest is the most bytes of a word; longer ones, such as encoded data, are left out.
	longest = 32
	// digits is the most digits of a word: longer numbers are ids and times, which differ from error to error.
	digits = 4
	// hashBytes is the length of a hash. 48 bits keep words apart; searches check the texts anyway.
	hashBytes = 6
)

// common are words that nearly all texts have.
var common = []string{"a", "an", "and", "at", "by", "for", "in", "is", "it", "of", "on", "or", "the", "to", "was"}

// Of returns the words of a text in their order, in lower case: sequences of letters and digits. Words of one byte,
// very long ones, long numbers and common words are left out, as are identifiers that mix many digits with letters.
func Of(text string) []string {
	var words []string
	for word := range strings.FieldsFuncSeq(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	}) {
		if isWord(word) {
			words = append(words, word)
		}
	}
	return words
}

func isWord(word string) bool {
	if len(word) < 2 || len(word) > longest || slices.Contains(common, word) {
		return false
	}
	n := 0
	for _, r := range word {
		if unicode.IsDigit(r) {
			n++
		}
	}
	return n <= digits
}

// Contains reports whether a text has the words of a phrase, one after the other. A phrase without words is in no text.
func Contains(text, phrase string) bool {
	all, wanted := Of(text), Of(phrase)
	for i := 0; len(wanted) > 0 && i+len(wanted) <= len(all); i++ {
		if slices.Equal(all[i:i+len(wanted)], wanted) {
			return true
		}
	}
	return false
}

// Key is a secret that hashes words.
type Key []byte

// For returns the key of a part of those who use the secret, such as a namespace.
func (k Key) For(part string) Key {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(part))
	return mac.Sum(nil)
}

// Hash returns the hash of a word: 8 letters, digits, _ and -.
func (k Key) Hash(word string) string {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(word))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:hashBytes])
}

// HashAll returns the hashes of the last Most different words of a text, separated by commas.
func (k Key) HashAll(text string) string {
	words := Of(text)
	var hashes []string
	for i := len(words) - 1; i >= 0 && len(hashes) < Most; i-- {
		if hash := k.Hash(words[i]); !slices.Contains(hashes, hash) {
			hashes = append(hashes, hash)
		}
	}
	return strings.Join(hashes, ",")
}
