package engine

import (
	"strconv"
	"strings"
	"time"
)

// ParsePause reads the stored text of a pause: its time in ms, and its reason behind a blank. A text without a time
// gives the zero time.
func ParsePause(text string) (since time.Time, reason string) {
	ms, reason, _ := strings.Cut(text, " ")
	at, err := strconv.ParseInt(ms, 10, 64)
	if err != nil {
		return time.Time{}, reason
	}
	return time.UnixMilli(at), reason
}
