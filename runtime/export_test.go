package runtime

import (
	"context"
	"time"

	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// MaxListed is the largest page of ListRuns.
const MaxListed = maxListed

// RunPlan is the run that Start would submit.
type RunPlan = submit.RunPlan

// NewPlan returns the run that Start would submit. Nothing is sent.
func NewPlan[In, Out any](c *Client, def *flow.Definition[In, Out], in In, opts ...StartOption) (*RunPlan, error) {
	plan, _, err := planRun(c, def, in, opts)
	return plan, err
}

// SubmitTogether sends runs of one flow and partition with one call and returns the codes of their outcomes.
func SubmitTogether(ctx context.Context, c *Client, plans ...*RunPlan) ([]string, error) {
	key := submit.StartKeyOf(plans[0])
	reply, err := c.submitter.Starts.Send(ctx, key, submit.StartCall(key, plans))
	codes := make([]string, len(reply.Outcomes))
	for i, outcome := range reply.Outcomes {
		codes[i] = outcome.Code
	}
	return codes, err
}

// SubmitAlone sends a run by itself.
func SubmitAlone(ctx context.Context, c *Client, plan *RunPlan) (existed bool, err error) {
	return c.submitter.Send(ctx, plan)
}

// OnlyMessages returns the config of a worker that for an hour acts on messages only: it neither sweeps nor renews
// leases before. A test with it needs no bound of time: work that is not announced does not happen within the test.
func OnlyMessages(config WorkerConfig) WorkerConfig {
	config.sweep, config.Lease = time.Hour, time.Hour
	return config
}

// RetryFor is the config of an engine whose calls are sent again for d before they fail.
func RetryFor(d time.Duration) OpenConfig { return OpenConfig{retryFor: d} }

// CheckLibraryEvery is the config of a keeper that checks the server's library at an interval.
func CheckLibraryEvery(d time.Duration) KeeperConfig { return KeeperConfig{libraryCheck: d} }

// SweepingKeeper is the config of a keeper that reads each of its partitions at an interval, also without messages.
func SweepingKeeper(every time.Duration) KeeperConfig { return KeeperConfig{sweep: every} }

// HoldingFailureHook returns the config of a worker that holds OnRunFailed for so long without renewal.
func HoldingFailureHook(config WorkerConfig, hold time.Duration) WorkerConfig {
	config.failureHold = hold
	return config
}

// Sweeping returns the config of a worker that searches for work at an interval, also without messages.
func Sweeping(config WorkerConfig, every time.Duration) WorkerConfig {
	config.sweep = every
	return config
}
