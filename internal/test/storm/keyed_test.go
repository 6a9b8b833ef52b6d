package storm

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

const (
	keyedName  = "keyed"
	keyedKept  = 5 * time.Second // after their end
	forkPrefix = "fork-"
)

// keyedFlow is the flow of runs that are started by a key: a timer, and one node after it.
func keyedFlow(step *activity.Activity[order, product]) (*flow.Definition[int, product], error) {
	f := flow.New[int, product](keyedName, flow.Retention(keyedKept))
	timer := flow.Sleep(f, "timer", 20*time.Millisecond)
	flow.Return(f, flow.Node(f, "only", step, flow.Const(order{}), flow.After(timer),
		activity.Retry(activity.RetryPolicy{First: time.Second, Attempts: 10, Factor: 1})))
	return f.Build()
}

// startKeyed starts a run by one of a few keys with one of the key policies, and records the run that the call
// returned.
func (c *customer) startKeyed(ctx context.Context, seed uint64) {
	def, err := keyedFlow(c.step)
	if err != nil {
		panic(err)
	}
	key := fmt.Sprint("key-", seed%5)
	var run *runtime.Run[product]
	start := func(kind string, p runtime.KeyPolicy) {
		run, err = runtime.Start(ctx, c.client, def, 1, runtime.WithKey(kind+key, p))
	}
	switch seed / 5 % 4 {
	case 0:
		quiet := runtime.DebouncePolicy{Quiet: 100 * time.Millisecond}
		run, err = runtime.Start(ctx, c.client, def, 1, runtime.WithDebounce("debounced-"+key, quiet))
	case 1:
		start("queued-", runtime.KeyPolicy{WhenTaken: runtime.QueueRun})
	case 2:
		start("unique-", runtime.KeyPolicy{UniqueFor: time.Second})
	default:
		start("", runtime.KeyPolicy{})
	}
	if err == nil {
		c.diary.note(entry{What: keyed, Run: run.ID()})
	}
}

// look reads all readable data of a run.
func look(ctx context.Context, run *runtime.Run[product]) {
	d, err := run.Describe(ctx)
	if err != nil {
		return
	}
	for _, n := range d.Nodes {
		_, _ = run.Value(ctx, n.Name, "nonce")
		for _, err := range run.Logs(ctx, n.Name, runtime.LogQuery{}) {
			if err != nil {
				break
			}
		}
		if ctx.Err() != nil {
			return
		}
	}
}

// keys waits until each acknowledged run has had its effect, and all runs have ended and are purged.
func (j *checker) keys(ctx context.Context, s *storm) {
	j.t.Helper()
	open := make(map[string]bool)
	for _, e := range j.entries {
		if e.What == keyed {
			open[e.Run] = true
		}
	}
	j.tallies["keyed runs"] = len(open)
	enginetest.EventuallyWithin(j.t, s.patience(), func() string {
		for run, err := range s.bench.Client.Runs(ctx, runtime.RunQuery{Flow: keyedName}) {
			require.NoError(j.t, err)
			return fmt.Sprintf("run %s of flow %s, %s, is purged", run.Run, keyedName, run.State)
		}
		return ""
	})
	entries, err := readDiary(s.path)
	require.NoError(j.t, err)
	for _, e := range entries {
		if e.What == began {
			delete(open, e.Run)
		}
	}
	for run := range open {
		j.t.Errorf("run %s of flow %s was acknowledged, and its function never ran", run, keyedName)
	}
}

// endForks cancels the forks of runs that are still open, since no client sends signals to their waits.
func (s *storm) endForks(ctx context.Context, t *testing.T) {
	t.Helper()
	query := runtime.RunQuery{
		Flow: flowName, Text: forkPrefix, States: []fabrictype.RunState{fabrictype.RunRunning},
	}
	s.finishJob(ctx, t, query, fabrictype.BulkAction{Kind: "cancel", Reason: "the storm is over"})
	enginetest.EventuallyWithin(t, s.patience(), func() string {
		for run, err := range s.bench.Client.Runs(ctx, query) {
			require.NoError(t, err)
			return fmt.Sprintf("fork %s is over: %s", run.Run, run.State)
		}
		return ""
	})
}

// finishJob runs a bulk job and waits for its end.
func (s *storm) finishJob(ctx context.Context, t *testing.T, query runtime.RunQuery, action fabrictype.BulkAction) {
	t.Helper()
	job, err := s.bench.Client.StartBulkJob(ctx, query, action, runtime.BulkOptions{})
	require.NoError(t, err)
	enginetest.EventuallyWithin(t, s.patience(), func() string {
		job, err = s.bench.Client.BulkJob(job.ID).Describe(ctx)
		require.NoError(t, err)
		if job.State == fabrictype.BulkRunning {
			return fmt.Sprintf("job %+v has ended", job)
		}
		return ""
	})
}
