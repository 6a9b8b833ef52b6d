// Package activity declares the functions that the nodes of a flow run, and provides the calls that these functions
// use.
//
// An activity is an ordinary function with a name:
//
//	func Scan(ctx context.Context, in Source) (Listing, error) { … }
//
//	var scan = activity.New("census.scan", Scan, activity.StartToClose(time.Minute))
//
// A flow wires activities together by package flow, a worker runs them. The function may be called directly, by a unit
// test for example: it needs no worker.
//
// # Names
//
// Names of activities, nodes, flows, steps, signals and dimensions have 1 to 128 characters out of A-Z, a-z, 0-9, '.',
// '_' and '-'.
//
// # Delivery
//
// An activity runs at least once for each node: a worker may be lost after the work is done and before its result is
// recorded. One attempt's result is recorded at most once, and never changes afterwards. Within the function the
// context ends with the attempt's timeout, the run's deadline, a cancellation, or the loss of the lease; context.Cause
// returns which.
//
// # Failure
//
// An error is retried by the activity's policy: by default 5 attempts, 1 s before the second, then twice as long each
// time, up to 1 min. NonRetryable ends the attempts at once, RetryAfter chooses the delay, Category names the failure
// for the record.
//
// # Inside a function
//
// Info describes the attempt, Heartbeat and Progress report to the worker, LeaseHealthy reports whether the worker
// still holds the lease. Outside a worker all four can be called and have no effect.
//
// Await waits for an external signal without occupying the worker, Step makes a step durable, Emit publishes output
// while it is produced, and ReportUsage and Reserve count usage of the run's budgets. Unit tests of functions that use
// them need a context of package activitytest.
package activity
