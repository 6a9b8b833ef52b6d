package activity

import (
	"encoding/json"
	"reflect"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
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
	// ResumeOnTimeout resumes the run: a waitpoint node succeeds with the zero value (with no signals, where they are
	// collected), and Await returns ErrWaitTimedOut.
	ResumeOnTimeout TimeoutBehavior = "resume"
	// Escalate keeps waiting, and records the escalation in the run's events and its waitpoints.
	Escalate TimeoutBehavior = "escalate"
)

// WaitOption sets the conditions that end a wait of Await or AwaitSignals, or of a waitpoint that flow.Waitpoint
// declares.
type WaitOption func(*activityspec.Wait)

// WaitpointOption marks a WaitOption as a flow.WaitOption.
func (WaitOption) WaitpointOption(activityspec.Mark) {}

// Signals names the signals that count, at most 64. Used more than once, it adds. The default is that every signal
// counts.
func Signals(names ...string) WaitOption {
	return func(w *activityspec.Wait) { w.Signals = append(w.Signals, names...) }
}

// MatchAll ends the wait after one signal of each name in Signals. It cannot be combined with AtLeast or
// AtLeastDistinct.
func MatchAll() WaitOption {
	return func(w *activityspec.Wait) {
		w.All = true
		if w.Count == 1 {
			w.Count = 0 // the default, which is All; a count of AtLeast stays, and is a fault
		}
	}
}

// AtLeast ends the wait with the n-th signal that counts, of one name or of several.
func AtLeast(n int) WaitOption {
	return func(w *activityspec.Wait) { w.Count, w.Distinct = n, false }
}

// AtLeastDistinct ends the wait after accepted signals from n different sources.
func AtLeastDistinct(n int) WaitOption {
	return func(w *activityspec.Wait) { w.Count, w.Distinct = n, true }
}

// Decisive names signals of which one ends the wait at once, whatever else is required: a single rejection where
// several approvals are needed. It counts even if its source was counted before. The names must differ from the names
// of Signals; both together have at most 64. Used more than once, it adds. The default is none.
func Decisive(names ...string) WaitOption {
	return func(w *activityspec.Wait) { w.Decisive = append(w.Decisive, names...) }
}

// Approvers ends the wait when n different people have approved, or as soon as one rejects: it takes the signals
// "approve" and "reject", of which "reject" is decisive. flow.Approval and AwaitApproval fail on a rejection; after any
// other wait the program must check the name of the last signal.
func Approvers(n int) WaitOption { return func(w *activityspec.Wait) { w.Approvers(n) } }

// Decision is the answer of a person, as the console, the command and the links of package approvals send it. Its zero
// value says nothing.
type Decision struct {
	// Choice is the name of the signal that carries the decision, such as "approve". A payload whose choice contradicts
	// its signal is refused.
	Choice string `json:"choice"`
	// By is the name of the person, as the program that asked knows it. Signal.Source is the sender that waits count.
	By string `json:"by,omitempty"`
	// Comment may be empty.
	Comment string `json:"comment,omitempty"`
}

// Timeout limits the wait, from the opening of the waitpoint on, at most to 10 years, and sets the effect of the
// timeout. By default the wait has no limit. Fractions of a millisecond are rounded up.
func Timeout(limit time.Duration, then TimeoutBehavior) WaitOption {
	return func(w *activityspec.Wait) {
		w.Timeout, w.OnTimeout = activityspec.Milliseconds(limit), activityspec.TimeoutBehavior(then)
		if w.Timeout == 0 {
			w.Timeout = -1 // not "no limit", which is not to be had by mistake
		}
	}
}

// Title names the wait for the people who answer it, in one line of at most 256 bytes. Lists of open waits show it.
func Title(text string) WaitOption {
	return func(w *activityspec.Wait) { w.Title = text }
}

// Question is the question to the people who answer: at most 4,096 bytes, which may have several lines.
func Question(text string) WaitOption {
	return func(w *activityspec.Wait) { w.Question = text }
}

// Audience names the people who may answer: people, groups or roles, as the program that shows the wait knows them.
// Lists of open waits select by it; it grants no rights. At most 16 names of 128 bytes. Used more than once, it adds.
func Audience(names ...string) WaitOption {
	return func(w *activityspec.Wait) { w.Audience = append(w.Audience, names...) }
}

// AnswerSchema is the JSON Schema that the payload of a signal must satisfy: of draft 2020-12, at most 64 KiB, with
// references only within it. Formats are checked. A signal whose payload does not satisfy it is refused with all its
// faults, and the wait continues. By default a payload must decode into the type of the wait: any field may be missing
// or null, and others may be there. Build refuses a schema whose $schema names another draft, as does the wait of an
// activity when it begins; another schema that cannot be used is refused when the run is started.
func AnswerSchema(schema json.RawMessage) WaitOption {
	return func(w *activityspec.Wait) { w.AnswerSchema = schema }
}

// Answer requires that payloads decode into a T. OpenWaitpoint needs it, because it does not know the type of its
// Await. Waits use the type that they return.
func Answer[T any]() WaitOption {
	return func(w *activityspec.Wait) { w.Payload = reflect.TypeFor[T]() }
}
