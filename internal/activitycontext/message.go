package activitycontext

import (
	"strings"
	"unicode/utf8"
)

// maxProgressMessage is the longest message of a report of progress, in bytes.
const maxProgressMessage = 1024

// Shorten returns a message of progress in valid UTF-8, cut to the length that is stored.
func Shorten(message string) string {
	message = strings.ToValidUTF8(message, "\uFFFD")
	if len(message) <= maxProgressMessage {
		return message
	}
	end := maxProgressMessage
	for !utf8.RuneStart(message[end]) {
		end--
	}
	return message[:end]
}
