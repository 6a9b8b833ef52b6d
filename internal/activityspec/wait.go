package activityspec

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// Limits of a wait.
const (
	// maxSignalNames bounds the names of one wait.
	maxSignalNames = 64
	// maxSignals bounds the number of signals that one wait requires, times its number of names.
	maxSignals = 1024
	// MaxWait is the longest timeout of a wait.
	MaxWait = 10 * 365 * 24 * time.Hour
)

// TimeoutBehavior is the effect of a timeout that passes before the wait's signals have arrived.
type TimeoutBehavior string

// Effects of a timeout.
const (
	// FailOnTimeout fails the node, with category "timeout", without a retry.
	FailOnTimeout TimeoutBehavior = "fail"
	// CancelOnTimeout cancels the node.
	CancelOnTimeout TimeoutBehavior = "cancel"
	// ExpireOnTimeout ends the node as expired.
	ExpireOnTimeout TimeoutBehavior = "expire"
	// ResumeOnTimeout continues: a waitpoint node succeeds with the zero value (with no signals, where they are
	// collected), and Await returns ErrWaitTimedOut.
	ResumeOnTimeout TimeoutBehavior = "resume"
	// Escalate keeps waiting, and records the escalation in the run's events and its waitpoints.
	Escalate TimeoutBehavior = "escalate"
)

// Wait defines which signals end a wait. NewWait creates one.
type Wait struct {
	// Signals are the names that count, without duplicates. None: every name counts.
	Signals []string
	// All requires one signal of each name; Count is 0 then.
	All bool
	// Count is the number of required signals with any accepted name; at least 1, except with All.
	Count int
	// Distinct counts only one signal of each source.
	Distinct bool
	// Decisive are names of signals that end the wait at once, regardless of its other requirements. They are not in
	// Signals.
	Decisive []string
	// Timeout limits the wait; 0 means unlimited. Whole milliseconds.
	Timeout time.Duration
	// OnTimeout is set exactly when Timeout is.
	OnTimeout TimeoutBehavior
	WaitText
}

// WaitText describes a wait to the people and programs that answer it. The zero value contains no description.
type WaitText struct {
	// Title and Question are shown to them: one line, and a text with lines.
	Title, Question string
	// Audience names the people who should answer.
	Audience []string
	// AnswerSchema is the JSON Schema that payloads must satisfy; nil if only their type restricts them.
	AnswerSchema json.RawMessage
	// Payload is the type that payloads are decoded into. In a stored graph, PayloadSchema is the schema of that type
	// instead. Both are nil if the type is unknown.
	Payload       reflect.Type
	PayloadSchema json.RawMessage
}

// Limits of the texts of a wait.
const (
	maxTitle        = 256
	maxQuestion     = 4096
	maxAudience     = 16
	maxAudienceName = 128
	maxAnswerSchema = 64 << 10
)

// IsZero reports whether the text is empty.
func (t WaitText) IsZero() bool {
	return t.Title == "" && t.Question == "" && len(t.Audience) == 0 && t.AnswerSchema == nil && t.Payload == nil &&
		t.PayloadSchema == nil
}

func (t WaitText) validate(fault func(format string, args ...any)) {
	if len(t.Title) > maxTitle {
		fault("title has %d bytes, the limit is %d", len(t.Title), maxTitle)
	}
	if err := CheckText(t.Title); err != nil {
		fault("title %q: %w", t.Title, err)
	}
	if len(t.Question) > maxQuestion {
		fault("question has %d bytes, the limit is %d", len(t.Question), maxQuestion)
	}
	if err := CheckText(strings.NewReplacer("\n", " ", "\t", " ").Replace(t.Question)); err != nil {
		fault("question: %w", err)
	}
	if len(t.Audience) > maxAudience {
		fault("audience has %d names, the limit is %d", len(t.Audience), maxAudience)
	}
	for i, name := range t.Audience {
		switch err := CheckText(name); {
		case name == "":
			fault("audience: name %d is empty", i+1)
		case len(name) > maxAudienceName:
			fault("audience: name %d has %d bytes, the limit is %d", i+1, len(name), maxAudienceName)
		case err != nil:
			fault("audience: name %q: %w", name, err)
		case slices.Contains(t.Audience[:i], name):
			fault("audience: %q is named twice", name)
		}
	}
	if len(t.AnswerSchema) > maxAnswerSchema {
		fault("answer schema has %d bytes, the limit is %d", len(t.AnswerSchema), maxAnswerSchema)
	} else if t.AnswerSchema != nil {
		var schema any
		if err := json.Unmarshal(t.AnswerSchema, &schema); err != nil {
			fault("answer schema is not JSON")
		} else if err := CheckSchema(schema); err != nil {
			fault("answer schema: %w", err)
		}
	}
}

// Signals of an approval.
const (
	Approve = "approve"
	Reject  = "reject"
)

// Approvers makes w an approval by n different people, which one rejection ends.
func (w *Wait) Approvers(n int) {
	if !slices.Contains(w.Signals, Approve) {
		w.Signals = append(w.Signals, Approve)
	}
	if !slices.Contains(w.Decisive, Reject) {
		w.Decisive = append(w.Decisive, Reject)
	}
	w.Count, w.Distinct = n, true
}

// IsApproval reports whether w takes the signals that Approvers sets, and no others.
func (w Wait) IsApproval() bool {
	return slices.Equal(w.Signals, []string{Approve}) && slices.Equal(w.Decisive, []string{Reject}) && !w.All &&
		w.Distinct
}

// Needs describes the signals that end the wait, such as "2 approvals of different people, or 1 rejection".
func (w Wait) Needs() string {
	text := strings.Join(w.Signals, " or ")
	switch needed := w.Needed(); {
	case w.All:
		text = strings.Join(w.Signals, " and ")
	case w.IsApproval():
		text = fmt.Sprintf("%d approvals", needed)
		if needed == 1 {
			text = "1 approval"
		}
	case text == "" && needed == 1:
		text = "any signal"
	case text == "":
		text = fmt.Sprintf("%d signals", needed)
	case needed > 1:
		text = fmt.Sprintf("%d of %s", needed, text)
	}
	switch {
	case w.Distinct && w.Needed() > 1 && w.IsApproval():
		text += " of different people"
	case w.Distinct && w.Needed() > 1:
		text += " from different sources"
	}
	switch {
	case w.IsApproval():
		text += ", or 1 rejection"
	case len(w.Decisive) > 0:
		text += ", or 1 of " + strings.Join(w.Decisive, " or ")
	}
	return text
}

// Needed is the number of signals that end the wait if none of them is decisive.
func (w Wait) Needed() int {
	if w.All {
		return len(w.Signals)
	}
	return max(1, w.Count)
}

// HasOnlyText reports whether w defines neither the signals nor the time that end the wait.
func (w Wait) HasOnlyText() bool {
	return len(w.Signals) == 0 && !w.All && w.Count <= 1 && !w.Distinct && len(w.Decisive) == 0 && w.Timeout == 0
}

// Clone returns a copy that shares nothing with w.
func (w Wait) Clone() Wait {
	w.Signals, w.Decisive = slices.Clone(w.Signals), slices.Clone(w.Decisive)
	w.Audience = slices.Clone(w.Audience)
	return w
}

// Validate returns every fault of w, joined, or nil.
func (w Wait) Validate() error {
	var errs []error
	fault := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	names := slices.Concat(w.Signals, w.Decisive)
	if len(names) > maxSignalNames {
		fault("%d signal names, the limit is %d", len(names), maxSignalNames)
	}
	seen := make(map[string]bool, len(names))
	for _, name := range names {
		if err := CheckName(name); err != nil {
			fault("signal: %w", err)
		}
		switch {
		case seen[name] && slices.Contains(w.Decisive, name) && slices.Contains(w.Signals, name):
			fault("signal %q is named twice: by Signals and by Decisive, which must differ", name)
		case seen[name]:
			fault("signal %q is named twice", name)
		}
		seen[name] = true
	}
	switch {
	case w.Count == nilOption:
		fault("%w", ErrNilOption)
	case w.All && len(w.Signals) == 0:
		fault("all signals are waited for, but none is named")
	case w.All && (w.Count != 0 || w.Distinct):
		fault("all signals are waited for (MatchAll), and also at least %d: only one of the two is possible", w.Count)
	case !w.All && w.Count < 1:
		fault("%d signals are waited for, it must be at least 1", w.Count)
	case len(w.Signals) <= 1 && w.Count > maxSignals:
		fault("%d signals are waited for, the limit is %d", w.Count, maxSignals)
	case len(w.Signals) > 1 && w.Count > maxSignals/len(w.Signals):
		fault("%d signals of %d names are waited for, the limit of their product is %d", w.Count, len(w.Signals),
			maxSignals)
	}
	w.validateTimeout(fault)
	w.WaitText.validate(fault)
	return errors.Join(errs...)
}

func (w Wait) validateTimeout(fault func(format string, args ...any)) {
	switch {
	case w.Timeout < 0:
		fault("timeout %s is not positive", w.Timeout)
	case w.Timeout%time.Millisecond != 0:
		fault("timeout %s is not in whole milliseconds", w.Timeout)
	case w.Timeout > MaxWait:
		fault("timeout %s, the limit is %s", w.Timeout, MaxWait)
	}
	switch w.OnTimeout {
	case FailOnTimeout, CancelOnTimeout, ExpireOnTimeout, ResumeOnTimeout, Escalate:
		if w.Timeout == 0 {
			fault("what happens after the timeout is said, but no timeout is")
		}
	case "":
		if w.Timeout != 0 {
			fault("what happens after the timeout of %s is not said", w.Timeout)
		}
	default:
		fault("unknown behaviour %q after the timeout", w.OnTimeout)
	}
}
