package approvals

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Limits of the fields that a visitor fills, in characters.
const (
	maxName    = 60
	maxComment = 2000
)

// Path returns the part of a link after the handler's address: "/" and the token. A link contains no answer: the page
// has a button for each choice. The link authorises an answer, so send it only to authorised people.
func Path(token activity.Token) string { return "/" + token.Reveal() }

// readPath is the reverse of Path. Its error is runtime.ErrInvalidToken.
func readPath(path string) (activity.Token, error) {
	return runtime.ParseToken(strings.TrimPrefix(path, "/"))
}

// readDecision parses a submitted form and returns its faults as text for the visitor.
func (h *Handler) readDecision(r *http.Request, who string) (d activity.Decision, fault string) {
	d = activity.Decision{
		Choice: r.PostFormValue("choice"), By: who, Comment: strings.TrimSpace(r.PostFormValue("comment")),
	}
	if h.config.Identity == nil {
		d.By = strings.Join(strings.Fields(r.PostFormValue("who")), " ")
	}
	switch {
	case h.label(d.Choice) == "":
		d.Choice = ""
		return d, "Please choose an answer by its button."
	case d.By == "":
		return d, "Please enter your name."
	case h.config.Identity == nil && (utf8.RuneCountInString(d.By) > maxName ||
		strings.ContainsFunc(d.By, unprintable)):
		return d, fmt.Sprintf("Please enter your name in at most %d characters.", maxName)
	case utf8.RuneCountInString(d.Comment) > maxComment || !utf8.ValidString(d.Comment):
		return d, fmt.Sprintf("Please keep your comment within %d characters.", maxComment)
	}
	return d, ""
}

func unprintable(r rune) bool { return !unicode.IsPrint(r) || r == utf8.RuneError }

// source names a visitor for the count of distinct ones. Names that people type differ in upper and lower case.
func (h *Handler) source(d activity.Decision) string {
	if h.config.Identity != nil {
		return d.By
	}
	return strings.ToLower(d.By)
}

// idempotencyKey makes the same answer of the same visitor one signal. Another answer is another signal, so that one
// who has approved can still reject.
func idempotencyKey(choice, source string) string {
	sum := sha256.Sum256([]byte(choice + "\x00" + source))
	return hex.EncodeToString(sum[:16])
}

// label is the label of a choice, "" for an unknown one.
func (h *Handler) label(signal string) string {
	for _, choice := range h.config.Choices {
		if choice.Signal == signal {
			return choice.Label
		}
	}
	return ""
}
