package fabrictype

import (
	"encoding/json"
	"time"
)

// Wait is a place at which a run waits, or has waited, for signals.
type Wait struct {
	ID string `json:"id"`
	// Flow and Run name the run that waits, which can be a child run of a map or sub-flow.
	Flow   string `json:"flow"`
	Run    string `json:"run"`
	FlowID string `json:"flow_id,omitempty"`
	// Node is the waitpoint node, or the node whose activity waits.
	Node string `json:"node"`
	// Step is the name of the wait in the activity, with "#2" and so on from the second call on; empty for a waitpoint
	// node.
	Step        string    `json:"step,omitempty" doc:"Name of the wait in the activity; absent for a waitpoint node."`
	ExecutionID string    `json:"execution,omitempty"`
	State       WaitState `json:"state" doc:"pending, open or closed"`
	// OpenedAt is when the wait was opened.
	OpenedAt time.Time `json:"opened_at,omitzero"`
	// TimeoutAt is when OnTimeout, an activity.TimeoutBehavior, takes effect; for a pending wait, when it is closed.
	// Both are empty without a timeout, and after an escalation (Escalated), when no timeout is left.
	TimeoutAt time.Time `json:"timeout_at,omitzero"`
	OnTimeout string    `json:"on_timeout,omitempty"`
	// Escalated reports whether the timeout has passed with activity.Escalate, so that the wait continues.
	Escalated bool `json:"escalated,omitempty" doc:"The timeout has passed and the wait continues."`
	// Signals are the names of the signals that count; empty means that all names count.
	Signals []string `json:"signals,omitempty" doc:"Names of the signals that count; absent if all do."`
	// Choices are the answers that people can give, by Signals and AnswerSchema; empty for a wait that takes any
	// signal.
	Choices []SignalChoice `json:"choices,omitempty" doc:"The answers that people can give, in the order of the signals."`
	// Decisive are the names among Signals of which one signal ends the wait at once.
	Decisive []string `json:"decisive,omitempty" doc:"Names among the signals of which one ends the wait at once."`
	// All reports whether one signal of each name is required; Distinct, whether only one signal of each source counts.
	All      bool `json:"all,omitempty" doc:"One signal of each name is required."`
	Distinct bool `json:"distinct,omitempty" doc:"Only one signal of each source counts."`
	// Needed is the number of signals that end the wait, and Received how many of them have arrived. For a pending
	// wait, Needed is 0, because the function has not set it yet, and Received counts all signals that are kept.
	Needed   int `json:"needed"`
	Received int `json:"received"`
	// Title, Question and Audience are the question and its addressees (activity.Title, Question and Audience).
	Title    string   `json:"title,omitempty"`
	Question string   `json:"question,omitempty"`
	Audience []string `json:"audience,omitempty"`
	// AnswerSchema is the JSON Schema that the payload of a signal must satisfy; nil if any payload does.
	AnswerSchema json.RawMessage `json:"answer_schema,omitempty" doc:"JSON Schema that the payload of an answer must satisfy."`
	// Tags are the tags of the run. Only lists over all runs and the wait of a token have them.
	Tags map[string]string `json:"tags,omitempty"`
}

// SignalChoice is an answer to a wait.
type SignalChoice struct {
	// Signal is the name of the signal.
	Signal string `json:"signal"`
	// Meaning is "yes" for a signal that agrees, such as "approve", "no" for one that refuses, such as "reject", and
	// empty for any other.
	Meaning string `json:"meaning,omitempty" enum:"yes,no" doc:"Whether the signal agrees or refuses; absent for any other."`
	// Sets are the fields of the payload that say the same as the signal, with their values. A payload with other
	// values is refused.
	Sets map[string]json.RawMessage `json:"sets,omitempty" doc:"Fields of the payload that say the same as the signal, with their values. A payload that contradicts them is refused."`
}

// ReceivedSignal is a signal that a wait has received.
type ReceivedSignal struct {
	// ID identifies the signal in the engine.
	ID string `json:"id"`
	// Name, Category, SourceType, Source and CorrelationID are as the sender gave them.
	Name          string `json:"name"`
	Category      string `json:"category,omitempty"`
	SourceType    string `json:"source_type,omitempty"`
	Source        string `json:"source,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
	// At is when the engine accepted the signal.
	At time.Time `json:"at"`
	// Counts reports whether the signal counts towards the end of the wait.
	Counts bool `json:"counts"`
	// JSON is the payload if it is JSON, as from this SDK, and Data anything else. Both are empty for none.
	JSON json.RawMessage `json:"json,omitempty"`
	Data []byte          `json:"data,omitempty"`
}

// Payload returns the encoded payload; nil for none.
func (s ReceivedSignal) Payload() []byte {
	if s.JSON != nil {
		return s.JSON
	}
	return s.Data
}

// SignalResult is the engine's reply to a signal.
type SignalResult struct {
	Outcome SignalOutcome `json:"outcome" doc:"accepted, resumed, duplicate, closed or expired"`
	// SignalID identifies the signal; for a duplicate, the first delivery.
	SignalID string `json:"signal_id,omitempty"`
	// First is the outcome of the first delivery of a duplicate; empty otherwise.
	First SignalOutcome `json:"first,omitempty" doc:"Outcome of the first delivery of a duplicate."`
	// Counts reports whether an accepted signal, or the first delivery of a duplicate, counts towards the end of the
	// wait. One that comes before the wait of a function is kept and does not count yet: the wait itself determines
	// which signals it needs. A signal that an open wait does not count is an error: runtime.ErrSignalDoesNotCount.
	Counts bool `json:"counts" doc:"The signal counts towards the end of the wait."`
}

// Answer returns the outcome of the first delivery: First for a duplicate, Outcome otherwise.
func (r SignalResult) Answer() SignalOutcome {
	if r.Outcome == SignalDuplicate && r.First != "" {
		return r.First
	}
	return r.Outcome
}
