package interceptor

import (
	"context"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
)

// Operation names an operation of a client: on a run, one of the constants; on anything else, its name in the audit
// log, such as Operation("set_schedule") or Operation("pause_lane"). Keepers perform the operations of schedules and
// bulk jobs, and no interceptor sees these, so an interceptor that guards Start or Rerun must guard schedules and bulk
// jobs as well.
type Operation string

// The operations that interceptors of clients see.
const (
	// Start: runtime.Start, Do, StartMany (each of its runs), the same of FlowRef, and RunRef.Fork.
	Start Operation = "start"
	// Signal: Client.Signal, whose run is not known to the client, and RunRef.SignalWait.
	Signal Operation = "signal"
	// Cancel: RunRef.Cancel and CancelPending; CancelNode: RunRef.CancelNode.
	Cancel     Operation = "cancel"
	CancelNode Operation = "cancel_node"
	Pause      Operation = "pause"
	Resume     Operation = "resume"
	Rerun      Operation = "rerun"
	Purge      Operation = "purge"
	// MoveTimer: RunRef.MoveTimer; SkipTimer: RunRef.SkipTimer.
	MoveTimer Operation = "move_timer"
	SkipTimer Operation = "skip_timer"
	// MoveStart: RunRef.MoveStart; SetPriority: RunRef.SetPriority and SetNodePriority.
	MoveStart   Operation = "move_start"
	SetPriority Operation = "set_priority"
	// ResumeWait: RunRef.ResumeWait; CancelWait: RunRef.CancelWait.
	ResumeWait Operation = "resume_wait"
	CancelWait Operation = "cancel_wait"
	// Result: Run.Result, which waits for the end of the run.
	Result Operation = "result"
)

// ClientCall is one operation.
type ClientCall struct {
	Operation Operation
	// Flow and Run name the run; both are empty for a signal by token. Of a schedule, Flow is the flow whose runs it
	// starts; of a bulk job, the flow to whose runs it is confined, empty for all.
	Flow, Run string
	// Name names the changed object if it is not a run: a schedule, a bulk job, a limit with its key, a budget, a lane,
	// an activity, a worker or a published flow. Detail describes the change, as in the audit log.
	Name, Detail string
	// Action is the kind of the fabrictype.BulkAction of "start_bulk_job", such as "rerun".
	Action string
	// Node is the node of CancelNode, MoveTimer, SkipTimer, SetNodePriority, ResumeWait, CancelWait, and of a signal to
	// a wait by its name.
	Node string
	// Input is the encoded input of Start and of "set_schedule". It must not be changed.
	Input []byte
}

// ClientFunc performs an operation. Its error is that which the method returns.
type ClientFunc func(ctx context.Context, call *ClientCall) error

// Client returns the function that runs around next: it sees the operation and its error, may change the error and the
// context, and may leave next out by returning an error.
type Client func(next ClientFunc) ClientFunc

// ActivityCall is one attempt of a function.
type ActivityCall struct {
	// Info names the flow, the run, the node, the attempt and, as Kind, the activity.
	Info activity.ExecutionInfo
	// Input is encoded by the codec of the activity. An interceptor may replace it for the interceptors after it and
	// the function.
	Input []byte
}

// ActivityFunc runs a function and returns its encoded result. Errors come from the function, from its codec, and from
// ends without a result: see IsFailure.
type ActivityFunc func(ctx context.Context, call *ActivityCall) (result []byte, err error)

// Activity returns the function that runs around next: it sees the call, its result and its error, may change all of
// them or the context, and may leave next out. Interceptors run in the goroutine of the function, within its time
// limits; a panic is one of the function. Nodes without a function (waitpoints, maps, sub-flows) and tasks that a
// program holds have none.
type Activity func(next ActivityFunc) ActivityFunc

// IsFailure reports whether err is the failure of a function: false for nil and for the errors by which a function
// gives its slot up or ends its node as cancelled (activity.Await, DelayUntil, CancelNode). An interceptor returns
// those as they are.
func IsFailure(err error) bool {
	return err != nil && !activityspec.IsMark(err) && !activitycontext.IsSuspension(err)
}
