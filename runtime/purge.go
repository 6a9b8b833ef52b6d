package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// DefaultRetention is how long a run is kept after its end where neither the flow nor the engine says otherwise.
const DefaultRetention = 7 * 24 * time.Hour

// Retention says how long runs are kept after they ended in one of the outcomes, all of them when none is named, where
// their flow does not say so itself. It is stored with a run when it starts, so a later change counts for later runs.
// Keepers purge what is due. Defaults to DefaultRetention; flow.KeepForever keeps runs until they are purged by hand.
func Retention(keep time.Duration, outcomes ...flow.Outcome) OpenOption {
	return func(c *openConfig) { c.keep = c.keep.With(keep, outcomes...) }
}

// retentionOf is the stored form of how long a run is kept: one time in ms for all outcomes, or four; negative is for
// ever, and so is the empty text.
func retentionOf(engine, own flowgraph.Keep) string {
	times := make([]int64, 0, 8)
	for _, outcome := range flowgraph.Outcomes() {
		keep := own.For(outcome)
		if keep == 0 {
			keep = engine.For(outcome)
		}
		switch {
		case keep == 0:
			keep = DefaultRetention
		case keep < 0:
			keep = -time.Millisecond
		}
		times = append(times, keep.Milliseconds())
	}
	if slices.Equal(times[1:], times[:len(times)-1]) {
		return strings.TrimPrefix(strconv.FormatInt(times[0], 10), "-1")
	}
	texts := make([]string, len(times))
	for i := range times {
		texts[i] = strconv.FormatInt(times[i], 10)
	}
	return strings.Join(texts, ",")
}

// Purge removes a run that is over with everything that belongs to it: nodes, results, events, budgets of its own. It may be called again
// when it was interrupted, and the run's id may be used again afterwards. It wraps ErrRunOpen while a node of the run is
// open, and ErrRunNotFound when there is no such run.
func (c *Client) Purge(ctx context.Context, flowName, runID string) error {
	id, partition, err := c.locate(flowName, runID)
	if err != nil {
		return err
	}
	return c.purge(ctx, flowName, runID, id, partition)
}

// Purge is Client.Purge for this run.
func (r *Run[Out]) Purge(ctx context.Context) error {
	r = r.there()
	return r.client.purge(ctx, r.flow, r.id, r.flowID, r.part)
}

func (c *Client) purge(ctx context.Context, flowName, runID string, id enginecore.FlowID, p enginecore.Partition) error {
	core, err := c.composites()
	if err != nil {
		return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, err)
	}
	c.done.forget(id)
	for first := true; ; first = false {
		reply, err := core.PurgeFlow(ctx, enginecore.PurgeFlowCall{Partition: p, FlowID: id})
		switch {
		case errors.Is(err, enginecore.ErrFlowNotTerminal):
			return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, ErrRunOpen)
		case err != nil:
			return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, err)
		case first && reply.Status == enginecore.StatusAlreadySatisfied:
			return fmt.Errorf("purge run %s of flow %s: %w", runID, flowName, ErrRunNotFound)
		case !reply.More:
			c.removeBudgetsOf(ctx, id, reply.Budgets)
			return nil
		}
	}
}
