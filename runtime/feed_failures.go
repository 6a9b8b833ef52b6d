package runtime

import (
	"context"
	"iter"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// Failures yields the failure of each run that fails or expires, and of each cancelled run of which a node with
// flow.Finally has failed, as it happens, as Events yields events: open the feed with a filter that has
// fabrictype.EventRunFailed, fabrictype.EventRunExpired and fabrictype.EventRunCancelled, or all kinds. Other events
// are skipped. Save Cursor after a failure was handled, and open the next feed with it: then each failure is handled at
// least once, also if the program stops in between.
//
// A *RunError is as Run.Result returns it. If the run was run again or purged since, or could not be read, it has only
// the data of the event: the run, its outcome, and the node that failed first. Errors are the errors of Events, with a
// nil failure; after a *fabrictype.EventsLostError the iteration continues.
func (f *Feed) Failures(ctx context.Context) iter.Seq2[*RunError, error] { return f.failures(ctx, ctx) }

// failures is Failures that waits for events until waiting ends, and reads the failures of those that have come until
// reading ends.
func (f *Feed) failures(waiting, reading context.Context) iter.Seq2[*RunError, error] {
	return func(yield func(*RunError, error) bool) {
		for event, err := range f.Events(waiting) {
			switch {
			case err != nil:
				if !yield(nil, err) {
					return
				}
			case event.Kind == fabrictype.EventRunFailed || event.Kind == fabrictype.EventRunExpired ||
				event.Kind == fabrictype.EventRunCancelled && f.client.submitter.CleanupFailed(
					reading, enginecore.FlowID(event.FlowID), event.Node,
				):
				if !yield(f.failureOf(reading, event), nil) {
					return
				}
			}
		}
	}
}

// failureOf reads the failure that an event reports.
func (f *Feed) failureOf(ctx context.Context, event fabrictype.FeedEvent) *RunError {
	e := &RunError{Flow: event.Flow, Run: event.Run, Outcome: fabrictype.OutcomeFailed, Node: event.Node}
	switch event.Kind {
	case fabrictype.EventRunExpired:
		e.Outcome = fabrictype.OutcomeExpired
	case fabrictype.EventRunCancelled:
		e.Outcome = fabrictype.OutcomeCancelled
	}
	return f.client.readFailure(ctx, enginecore.FlowID(event.FlowID), e)
}

// readFailure reads the failure of a run of which the given one is known; it returns the given one if the run no longer
// has this failure, or could not be read.
func (c *Client) readFailure(ctx context.Context, id enginecore.FlowID, known *RunError) *RunError {
	read := submit.ReadOutcomeFailure(ctx, c.session, known.Flow, known.Run, id, string(known.Outcome))
	if read == nil {
		return known
	}
	return newRunError(read)
}
