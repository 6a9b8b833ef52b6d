package linearizability

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// needed is how many signals end the wait of a run, which is then over.
const needed = 3

// Kind is the operation of a call.
type Kind string

// Kinds of calls.
const (
	Start         Kind = "start"
	Signal        Kind = "signal"
	StartOrSignal Kind = "start-or-signal"
	Cancel        Kind = "cancel"
	Describe      Kind = "describe"
	Result        Kind = "result"
)

// Call is one call of a client about the run with an id.
type Call struct {
	Kind Kind
	Run  string
	// Input is the run's input, for calls that start it.
	Input int `json:",omitempty"`
	// Key is the idempotency key of a signal, and Payload its payload.
	Key     string `json:",omitempty"`
	Payload int    `json:",omitempty"`
}

// String names the call and its arguments.
func (c Call) String() string {
	switch c.Kind {
	case Start:
		return fmt.Sprintf("start(%d)", c.Input)
	case Signal:
		return fmt.Sprintf("signal(%s, %d)", c.Key, c.Payload)
	case StartOrSignal:
		return fmt.Sprintf("start-or-signal(%d, %s, %d)", c.Input, c.Key, c.Payload)
	}
	return string(c.Kind)
}

// Code is how a call ended.
type Code string

// Codes of outcomes. Codes of signals are the outcomes of package runtime.
const (
	// Unknown: the call may have had its effect, may have it later, or never.
	Unknown    Code = "unknown"
	Done       Code = "done"
	Existed    Code = "existed"
	OtherInput Code = "other-input"
	NotFound   Code = "not-found"
	Over       Code = "over"
	Accepted   Code = "accepted"
	Resumed    Code = "resumed"
	Duplicate  Code = "duplicate"
	Closed     Code = "closed"
	Running    Code = "running"
	Succeeded  Code = "succeeded"
	Cancelled  Code = "cancelled"
)

// Outcome is the reply of a call.
type Outcome struct {
	Code Code
	// First is the outcome of the first delivery of a duplicate.
	First Code `json:",omitempty"`
	// Existed reports whether a call that starts and signals has found the run.
	Existed bool `json:",omitempty"`
	// Received is how many signals an open run has received, or uncounted.
	Received int `json:",omitempty"`
	// Payloads are the result of a run, as JSON.
	Payloads string `json:",omitempty"`
	// Why is the error of a call with an unknown outcome.
	Why string `json:",omitempty"`
}

// String names the code, with the other fields that are set.
func (o Outcome) String() string {
	switch {
	case o.First != "":
		return fmt.Sprintf("%s of %s", o.Code, o.First)
	case o.Payloads != "":
		return fmt.Sprintf("%s %s", o.Code, o.Payloads)
	case o.Code == Running:
		return fmt.Sprintf("%s, %d received", o.Code, o.Received)
	}
	return string(o.Code)
}

// state is a run of the model. It is comparable, as the checker requires.
type state struct {
	is    Code // "" without a run, Running, Succeeded or Cancelled
	input int
	keys  string // of the signals received, in their order
	sum   string // their payloads, as JSON without brackets
}

func (s state) received() []string { return strings.Fields(s.keys) }

// with returns the state with one more signal, which ends a run that has received enough.
func (s state) with(c Call) state {
	s.keys = strings.TrimSpace(s.keys + " " + c.Key)
	s.sum = strings.TrimPrefix(fmt.Sprintf("%s,%d", s.sum, c.Payload), ",")
	if len(s.received()) == needed {
		s.is = Succeeded
	}
	return s
}

// after returns the model's reply to a call, and its state afterwards.
func (s state) after(c Call) (Outcome, state) {
	switch c.Kind {
	case Start:
		switch {
		case s.is == "":
			return Outcome{Code: Done}, state{is: Running, input: c.Input}
		case s.input != c.Input:
			return Outcome{Code: OtherInput}, s
		}
		return Outcome{Code: Existed}, s
	case Signal:
		if s.is == "" {
			return Outcome{Code: NotFound}, s
		}
		return s.signal(c)
	case StartOrSignal:
		existed := s.is != ""
		if !existed {
			s = state{is: Running, input: c.Input}
		}
		o, next := s.signal(c)
		o.Existed = existed
		return o, next
	case Cancel:
		switch s.is {
		case "":
			return Outcome{Code: NotFound}, s
		case Succeeded:
			return Outcome{Code: Over}, s
		}
		s.is = Cancelled
		return Outcome{Code: Done}, s
	}
	return s.read(), s
}

// signal returns the answer to a signal, and the state after it.
func (s state) signal(c Call) (Outcome, state) {
	received := s.received()
	switch place := slices.Index(received, c.Key); {
	case place == needed-1:
		return Outcome{Code: Duplicate, First: Resumed}, s
	case place >= 0:
		return Outcome{Code: Duplicate, First: Accepted}, s
	case s.is != Running:
		return Outcome{Code: Closed}, s
	case len(received) == needed-1:
		return Outcome{Code: Resumed}, s.with(c)
	}
	return Outcome{Code: Accepted}, s.with(c)
}

// read returns the answer to a call that only reads.
func (s state) read() Outcome {
	switch s.is {
	case "":
		return Outcome{Code: NotFound}
	case Running:
		return Outcome{Code: Running, Received: len(s.received())}
	case Succeeded:
		return Outcome{Code: Succeeded, Payloads: "[" + s.sum + "]"}
	}
	return Outcome{Code: s.is}
}

// uncounted is the number of received signals in an outcome whose waits were read after the end of the run.
const uncounted = -1

// allows reports whether a call may have returned an outcome when the model answers another one. Describe reads the waits
// of a run after its state: where they are over by then, only the state is known.
func allows(answer, got Outcome) bool {
	got.Why = ""
	if got.Received == uncounted {
		got.Received = answer.Received
	}
	return answer == got
}

// step returns the states that a run can have after a call with an outcome; none if it cannot have that outcome. Where
// replies are lost, a call that is sent again finds the run that it has started itself.
func step(s state, c Call, got Outcome, repliesLost bool) []any {
	answer, next := s.after(c)
	if got.Code == Unknown {
		return []any{next, s}
	}
	if repliesLost && s.is == "" {
		switch {
		case c.Kind == Start && got.Code == Existed:
			got.Code = Done
		case c.Kind == StartOrSignal:
			got.Existed = false
		}
	}
	if !allows(answer, got) {
		return nil
	}
	return []any{next}
}

// modelOf returns the model of all runs of a history, each of which is checked on its own.
func modelOf(repliesLost bool) porcupine.NondeterministicModel {
	return porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			var parts [][]porcupine.Operation
			at := make(map[string]int)
			for _, o := range history {
				run := o.Input.(Call).Run
				i, known := at[run]
				if !known {
					i = len(parts)
					at[run] = i
					parts = append(parts, nil)
				}
				parts[i] = append(parts[i], o)
			}
			return parts
		},
		Init: func() []any { return []any{state{}} },
		Step: func(s, c, got any) []any { return step(s.(state), c.(Call), got.(Outcome), repliesLost) },
		DescribeOperation: func(call, outcome any) string {
			return fmt.Sprintf("%s → %s", call, outcome)
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}

// encode returns the JSON of the payloads of a result.
func encode(payloads []int) string {
	data, err := json.Marshal(payloads)
	if err != nil {
		return err.Error()
	}
	return string(data)
}
