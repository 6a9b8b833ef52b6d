package decision

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Meanings of signals and words.
const (
	yes = "yes"
	no  = "no"
)

// Meaning returns "yes" for a word of agreement, such as the name of a signal, "no" for one of refusal, and "" for any
// other word. Case, and all characters other than letters, do not matter.
func Meaning(word string) string {
	letters := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return r
		}
		return -1
	}, strings.ToLower(word))
	switch letters {
	case "approve", "approved", "approval", "accept", "accepted", "agree", "agreed", "allow", "allowed", "confirm",
		"confirmed", "grant", "granted", "ok", "okay", "yes":
		return yes
	case "reject", "rejected", "rejection", "deny", "denied", "decline", "declined", "disagree", "disagreed",
		"disallow", "disallowed", "refuse", "refused", "forbid", "forbidden", "veto", "cancel", "cancelled", "canceled",
		"abort", "no":
		return no
	}
	return ""
}

// isChoice reports whether a field of that name contains a decision in words.
func isChoice(name string) bool {
	switch strings.ToLower(name) {
	case "choice", "decision", "answer", "verdict", "outcome", "signal":
		return true
	}
	return false
}

// field is a field of an answer that may repeat its signal.
type field struct {
	name string
	// boolean fields say yes or no, by the meaning of their name; others have the words of enum, or any word without.
	boolean bool
	enum    []string
}

// says returns the value of the field that agrees with a signal; nil if the field says nothing about it.
func (f field) says(signal string) json.RawMessage {
	meaning := Meaning(signal)
	switch {
	case f.boolean && f.name == signal:
		return json.RawMessage("true")
	case f.boolean && meaning != "" && Meaning(f.name) != "":
		return fmt.Append(nil, meaning == Meaning(f.name))
	case f.boolean:
		return nil
	case slices.Contains(f.enum, signal) || f.enum == nil && meaning != "":
		return quoted(signal)
	case meaning == "":
		return nil
	}
	i := slices.IndexFunc(f.enum, func(word string) bool { return Meaning(word) == meaning })
	if i < 0 {
		return nil
	}
	return quoted(f.enum[i])
}

// contradicts reports whether the value of the field contradicts a signal. A boolean that is missing or null reads as
// false; a missing word says nothing.
func (f field) contradicts(signal string, value json.RawMessage) bool {
	agrees := f.says(signal)
	if agrees == nil {
		return false
	}
	if f.boolean {
		given := false
		return json.Unmarshal(value, &given) == nil && fmt.Sprint(given) != string(agrees) ||
			len(value) == 0 && string(agrees) == "true"
	}
	var word string
	if json.Unmarshal(value, &word) != nil || word == "" || word == signal {
		return false
	}
	if slices.Contains(f.enum, signal) {
		return true
	}
	meaning := Meaning(word)
	return meaning != "" && meaning != Meaning(signal)
}

func quoted(word string) json.RawMessage {
	data, _ := json.Marshal(word) // a text has a JSON form
	return data
}

// schema is the part of a JSON Schema that shows the fields of an object.
type schema struct {
	Ref        string            `json:"$ref"`
	Type       json.RawMessage   `json:"type"`
	Enum       []json.RawMessage `json:"enum"`
	AnyOf      []schema          `json:"anyOf"`
	OneOf      []schema          `json:"oneOf"`
	Properties map[string]schema `json:"properties"`
	Defs       map[string]schema `json:"$defs"`
}

// resolved follows the references of a schema to its definitions, and the one alternative that is not null.
func (s schema) resolved(defs map[string]schema) schema {
	for range 8 { // references may form a circle
		if name, ok := strings.CutPrefix(s.Ref, "#/$defs/"); ok {
			s = defs[name]
			continue
		}
		alternatives := slices.DeleteFunc(slices.Concat(s.AnyOf, s.OneOf), func(a schema) bool {
			return string(a.Type) == `"null"`
		})
		if len(alternatives) != 1 {
			break
		}
		s = alternatives[0]
	}
	return s
}

// is reports whether a schema allows values of a type, and no others except null.
func (s schema) is(kind string) bool {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		return one == kind
	}
	var several []string
	_ = json.Unmarshal(s.Type, &several) // no type: none
	several = slices.DeleteFunc(several, func(t string) bool { return t == "null" })
	return len(several) == 1 && several[0] == kind
}

// words returns the texts of an enum.
func (s schema) words() []string {
	var words []string
	for _, value := range s.Enum {
		var word string
		if json.Unmarshal(value, &word) == nil && word != "" {
			words = append(words, word)
		}
	}
	return words
}

// fieldsOf returns the fields of the answers that a schema allows, which may repeat a signal, by name.
func fieldsOf(text []byte) []field {
	var root schema
	if len(text) == 0 || json.Unmarshal(text, &root) != nil {
		return nil
	}
	var fields []field
	for name, property := range root.resolved(root.Defs).Properties {
		p := property.resolved(root.Defs)
		switch {
		case p.is("boolean"):
			fields = append(fields, field{name: name, boolean: true})
		case isChoice(name) && (p.is("string") || len(p.words()) > 0):
			fields = append(fields, field{name: name, enum: p.words()})
		}
	}
	slices.SortFunc(fields, func(a, b field) int { return strings.Compare(a.name, b.name) })
	return fields
}

// Choices returns the answers that a wait with these signals takes, in the order of the signals: the meaning of each
// of them, and which fields of a payload say the same, by the schema of the answers. A signal without a meaning gives
// two answers where one boolean field has the decision; so does a wait that takes any signal, which then gets "approve"
// and "reject". A wait that takes any signal has no choices otherwise.
func Choices(signals []string, answerSchema json.RawMessage) []fabrictype.SignalChoice {
	fields := fieldsOf(answerSchema)
	var choices []fabrictype.SignalChoice
	decided := decisionField(fields)
	if len(signals) == 0 && decided != "" {
		signals, decided = []string{"approve", "reject"}, ""
	}
	for _, signal := range signals {
		choice := fabrictype.SignalChoice{Signal: signal, Meaning: Meaning(signal)}
		for _, f := range fields {
			if value := f.says(signal); value != nil {
				choice.Sets = withField(choice.Sets, f.name, value)
			}
		}
		if choice.Meaning != "" || decided == "" || choice.Sets[decided] != nil {
			choices = append(choices, choice)
			continue
		}
		for _, meaning := range []string{yes, no} {
			of := choice
			of.Meaning = meaning
			of.Sets = withField(maps.Clone(choice.Sets), decided, fmt.Append(nil, meaning == Meaning(decided)))
			choices = append(choices, of)
		}
	}
	return choices
}

func withField(
	fields map[string]json.RawMessage, name string, value json.RawMessage,
) map[string]json.RawMessage {
	if fields == nil {
		fields = make(map[string]json.RawMessage)
	}
	fields[name] = value
	return fields
}

// decisionField returns the only boolean field whose name is a decision; "" if there is none, or several.
func decisionField(fields []field) string {
	found := ""
	for _, f := range fields {
		if f.boolean && Meaning(f.name) != "" {
			if found != "" {
				return ""
			}
			found = f.name
		}
	}
	return found
}

// maxComment bounds the comment of a rejection, in bytes.
const maxComment = 1024

// Comment returns the comment in the payload of a signal that rejects an approval, which the failure of the approval
// has: at most 1,024 bytes of it, then with "…" at the end. It is empty without one, and for other signals.
func Comment(signal string, payload []byte) string {
	if signal != activityspec.Reject {
		return ""
	}
	var decided struct {
		Comment string `json:"comment"`
	}
	if json.Unmarshal(payload, &decided) != nil || len(decided.Comment) <= maxComment {
		return decided.Comment
	}
	end := maxComment
	for !utf8.RuneStart(decided.Comment[end]) {
		end--
	}
	return decided.Comment[:end] + "…"
}

// Check returns the faults of a payload whose fields contradict its signal; nil if there are none. subject names the
// payload.
func Check(subject, signal string, answerSchema, payload []byte) *fabrictype.ValueError {
	fields := fieldsOf(answerSchema)
	if len(fields) == 0 {
		return nil
	}
	var given map[string]json.RawMessage
	if len(payload) > 0 && json.Unmarshal(payload, &given) != nil {
		return nil // not an object: the schema decides
	}
	var faults []fabrictype.ValueFault
	for _, f := range fields {
		value := given[f.name]
		if !f.contradicts(signal, value) {
			continue
		}
		has := "is missing"
		if value != nil {
			has = "is " + string(value)
		}
		faults = append(faults, fabrictype.ValueFault{
			Pointer: "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(f.name),
			Message: fmt.Sprintf("%s contradicts the signal %q: %q %s, and must be %s", f.name, signal, f.name, has,
				f.says(signal)),
		})
	}
	if len(faults) == 0 {
		return nil
	}
	return &fabrictype.ValueError{Subject: subject, Faults: faults}
}
