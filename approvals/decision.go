package approvals

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Decision is the payload of the signal that a visitor sends; the waitpoint's payload type has to take it.
type Decision struct {
	// Choice is the name of the signal, such as "approve".
	Choice string `json:"choice"`
	// By is the person who answered: the user returned by Config.Identity, or the name that the visitor entered, of at
	// most 60 characters.
	By string `json:"by"`
	// Comment may be empty. It has at most 2,000 characters.
	Comment string `json:"comment,omitempty"`
}

// Limits of the fields that a visitor fills, in characters. Decision has them for users.
const (
	maxName    = 60
	maxComment = 2000
)

// Path returns the part of a link after the handler's address: "/" and the token, and then, if a choice is given, "/"
// and its signal name: the page has that choice selected. The link authorises an answer, so send it only to authorised
// people.
func Path(token activity.Token, choice string) string {
	path := "/" + token.Reveal()
	if choice != "" {
		path += "/" + url.PathEscape(choice)
	}
	return path
}

// readPath is the reverse of Path. Its error is runtime.ErrInvalidToken.
func readPath(path string) (token activity.Token, choice string, err error) {
	text, choice, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	token, err = runtime.ParseToken(text)
	return token, choice, err
}

// readDecision parses a submitted form and returns its faults as text for the visitor.
func (h *Handler) readDecision(r *http.Request, who string) (d Decision, fault string) {
	d = Decision{
		Choice: r.PostFormValue("choice"), By: who, Comment: strings.TrimSpace(r.PostFormValue("comment")),
	}
	if h.config.Identity == nil {
		d.By = strings.Join(strings.Fields(r.PostFormValue("who")), " ")
	}
	switch {
	case h.label(d.Choice) == "":
		d.Choice = ""
		return d, "Please choose an answer."
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
func (h *Handler) source(d Decision) string {
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
