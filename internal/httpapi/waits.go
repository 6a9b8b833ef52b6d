package httpapi

import (
	"encoding/json"
	"net/url"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations of waits.
var (
	ListWaits = call[ListWaitsInput, fabrictype.Page[fabrictype.Wait]](Operation{
		Name: "list-waits", Group: "waits", Method: "GET", Path: "/waits",
		Right: api.View, Effect: Reads, Bound: true, Query: QueryWaits,
		Summary: "List the open waits of all runs",
	})
	ListRunWaits = call[ListRunWaitsInput, fabrictype.Page[fabrictype.Wait]](Operation{
		Name: "list-run-waits", Group: "waits", Method: "GET", Path: "/runs/{flow}/{run}/waits",
		Right: api.View, Effect: Reads, Bound: true,
		Summary: "List the waits of a run and its child runs",
	})
	SignalRun = call[SignalRunInput, fabrictype.SignalResult](Operation{
		Name: "signal-run", Group: "waits", Method: "POST", Path: "/runs/{flow}/{run}/signals",
		Right: api.Approve, Effect: Changes, Bound: true,
		Summary: "Answer a wait of a run, by node and step",
	})
	SignalToken = call[SignalTokenInput, fabrictype.SignalResult](Operation{
		Name: "signal-token", Group: "waits", Method: "POST", Path: "/signals",
		Right: api.Approve, Effect: Changes, Bound: true,
		Summary: "Answer a wait by its token",
	})
	GetTokenWait = call[TokenInput, fabrictype.Wait](Operation{
		Name: "get-token-wait", Group: "waits", Method: "POST", Path: "/waits/by-token",
		Right: api.Approve, Effect: Reads, Bound: true,
		Summary: "Describe the wait that a token belongs to",
	})
	ListSignals = call[WaitInput, fabrictype.Page[fabrictype.ReceivedSignal]](Operation{
		Name: "list-signals", Group: "waits", Method: "GET", Path: "/runs/{flow}/{run}/waits/{wait}/signals",
		Right: api.ReadPayloads, Effect: Reads, Bound: true,
		Summary: "List the signals that a wait has received",
	})
	ResumeWait = call[ResumeWaitInput, Empty](Operation{
		Name: "resume-wait", Group: "waits", Method: "POST", Path: "/runs/{flow}/{run}/waits/{wait}/resume",
		Right: api.Operate, Effect: Changes, Bound: true,
		Summary: "End a wait with a payload, without regard to its condition",
	})
	CancelWait = call[CancelWaitInput, Empty](Operation{
		Name: "cancel-wait", Group: "waits", Method: "POST", Path: "/runs/{flow}/{run}/waits/{wait}/cancel",
		Right: api.Operate, Effect: Destroys, Bound: true,
		Summary: "Cancel the node that waits",
	})
)

func waitOperations() []Entry {
	return []Entry{ListWaits, ListRunWaits, SignalRun, SignalToken, GetTokenWait, ListSignals, ResumeWait, CancelWait}
}

// ListWaitsInput selects waits.
type ListWaitsInput struct {
	// Query has further parameters, which Operation.Query names.
	Query url.Values `json:"-"`
	api.Paging
}

// ListRunWaitsInput selects the waits of a run.
type ListRunWaitsInput struct {
	RunName
	Closed bool `query:"closed" doc:"With those that are over; only open ones if it is absent."`
}

// SignalRunInput is the input of an operation with a body.
type SignalRunInput struct {
	RunName
	Body struct{ api.SignalRunInput }
}

// SignalTokenInput is a signal to a wait by its token.
type SignalTokenInput struct {
	Body struct {
		Token string `json:"token"`
		api.SignalBody
	}
}

// TokenInput has a token of a wait.
type TokenInput struct {
	Body struct {
		Token string `json:"token"`
	}
}

// WaitName names a wait of a run by its id.
type WaitName struct {
	RunName
	Wait string `path:"wait" doc:"Id of the wait."`
}

// WaitInput names the wait that an operation is about.
type WaitInput struct{ WaitName }

// ResumeWaitInput ends a wait.
type ResumeWaitInput struct {
	WaitName
	Body struct {
		Payload json.RawMessage `json:"payload,omitempty"`
	}
}

// CancelWaitInput cancels a wait.
type CancelWaitInput struct {
	WaitName
	Body struct {
		Reason string `json:"reason,omitempty"`
	}
}
