package worker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// carriedEntry is the name of the journal entry of a function that goes on as new: the number of its generation and,
// behind a blank, its state.
const carriedEntry = "carried"

// carried returns the generation of a function, counted from 1, and the state that it goes on with; nil for the first.
func (j *journal) carried() (generation int64, state []byte, err error) {
	data, ok := j.get(carriedEntry)
	if !ok {
		return 1, nil, nil
	}
	number, text, ok := strings.Cut(string(data), " ")
	generation, err = strconv.ParseInt(number, 10, 64)
	if err != nil || !ok {
		return 0, nil, undecodable(fmt.Errorf("the state that the function goes on with is %q", data))
	}
	return generation, []byte(text), nil
}

// continuation is the error of an attempt whose execution goes on as new.
type continuation struct {
	generation int64 // that ends
	state      []byte
}

// Error describes what happens.
func (c *continuation) Error() string {
	return fmt.Sprintf("generation %d goes on as new", c.generation)
}

// continuationIn returns the continuation in an error's chain, nil if there is none.
func continuationIn(err error) *continuation {
	c, _ := errors.AsType[*continuation](err)
	return c
}

// continued returns the continuation that the error of a function asks for, or err if it asks for none.
func (t *Task) continued(handler activity.Handler, generation int64, err error) error {
	asked, found := errors.AsType[*activityspec.Continuation](err)
	if !found {
		return err
	}
	if _, missing := engine.Capability[engine.Continuations](t.run.session.Backend); missing != nil {
		return activity.NonRetryable(fmt.Errorf("%w: activity.ContinueAsNew", missing))
	}
	if asked.Type != handler.InputType() {
		return activity.NonRetryable(fmt.Errorf("activity.ContinueAsNew got a state of type %s; activity %q takes %s",
			asked.Type, handler.Name(), handler.InputType()))
	}
	state, err := handler.Codec().Encode(asked.State)
	if err != nil {
		return final(activity.CategoryEncode, "activity.ContinueAsNew: state of type %s does not encode: %w",
			asked.Type, err)
	}
	return checkState(&continuation{generation, state})
}

// checkState returns the continuation, or the failure of one whose state is too large.
func checkState(c *continuation) error {
	if len(c.state) <= activity.MaxStep {
		return c
	}
	return final(engine.CategoryTooLarge, "%w: the state to go on with has %d bytes, at most %d are allowed",
		engine.ErrTooLarge, len(c.state), activity.MaxStep)
}

// continueAsNew lets the execution go on as new. If that fails, the lease expires, and the generation is run again.
func (c *completer) continueAsNew(l *lease, next *continuation, slots int) (r report) {
	store, err := engine.Capability[engine.Continuations](c.session.Backend)
	if err != nil {
		return report{refused: activity.NonRetryable(err)}
	}
	call := enginerpc.ContinueAsNewCall{
		Partition: l.shard.Partition, ExecutionID: l.claimed.ExecutionID, LeaseID: l.claimed.LeaseID,
		LeaseEpoch: l.claimed.LeaseEpoch, AttemptID: l.claimed.AttemptID,
		Generation: next.generation, State: next.state, ClaimRequest: c.claimRequest(l.shard.Lane, slots),
	}
	err = c.untilKnown(l, func(ctx context.Context, repeated bool) error {
		call.Repeated = repeated
		sentAt := time.Now()
		reply, err := store.ContinueAsNew(ctx, call)
		r = report{
			metric:  engine.OutcomeSuspended,
			handoff: handoffOf(reply.Executions, reply.Candidates, false, reply.Remaining > 0, sentAt),
		}
		return err
	})
	if err != nil {
		return report{err: err}
	}
	return r
}
