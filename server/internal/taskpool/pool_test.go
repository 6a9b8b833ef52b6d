package taskpool_test

import (
	"fmt"
	goruntime "runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/server/internal/login"
	"github.com/flowfabric/flowfabric-go/server/internal/taskpool"
)

// Of a task that has ended, the pool keeps how it has: a repeated call gets the same answer, the input is free, and the
// number of them is bounded.
func TestEndedTaskKeepsOnlyItsAnswer(t *testing.T) {
	t.Parallel()
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	const kept = 3
	pool := taskpool.New(taskpool.Config{Engine: b.Engine, Logger: b.Logger(), Ended: kept})
	t.Cleanup(pool.Close)
	f := flow.New[string, int]("large")
	flow.Return(f, flow.Node(f, "only", activity.Declare[string, int]("work"), f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	owner := login.Principal{Name: "ann", Kind: login.ByToken}
	spec := taskpool.Spec{Owner: owner, Name: "w", Activities: []string{"work"}, Lease: time.Hour}
	claim := func(i int) *taskpool.Task {
		_, err := runtime.Start(ctx, b.Client, def, strings.Repeat("x", 100_000+i))
		require.NoError(t, err)
		_, task, err := pool.Claim(ctx, spec)
		require.NoError(t, err)
		require.NotNil(t, task)
		return task
	}
	var tokens []string
	var inputs []weak.Pointer[byte]
	for i := range kept + 2 {
		task := claim(i)
		tokens, inputs = append(tokens, task.Token), append(inputs, weak.Make(&task.Payload()[0]))
		switch i {
		case 0, 1, 2:
			err := task.Complete(ctx, []byte("1"))
			require.NoError(t, err)
			task.Settled(taskpool.Completed, taskpool.Answer{}, err)
		case 3:
			token, err := task.Suspend(ctx)
			require.NoError(t, err)
			task.Settled(taskpool.Suspended, taskpool.Answer{Token: token}, err)
		default:
			retries, err := task.Fail(ctx, fmt.Errorf("no"))
			require.NoError(t, err)
			task.Settled(taskpool.Failed, taskpool.Answer{Retries: retries}, err)
		}
	}
	enginetest.Eventually(t, func() string {
		goruntime.GC()
		for i, input := range inputs {
			if input.Value() != nil {
				return fmt.Sprint("the input of an ended task is kept: ", i)
			}
		}
		return ""
	})
	for i, want := range []taskpool.Settlement{"", "", taskpool.Completed, taskpool.Suspended, taskpool.Failed} {
		_, err := pool.Find(owner.ID(), tokens[i])
		if want == "" {
			require.ErrorIs(t, err, taskpool.ErrUnknown, "the oldest are forgotten")
			continue
		}
		var over *taskpool.Over
		require.ErrorAs(t, err, &over)
		require.ErrorIs(t, err, runtime.ErrTaskSettled)
		require.Equal(t, want, over.Settlement)
		require.Equal(t, want == taskpool.Suspended, over.Answer.Token != activity.Token{})
		_, err = pool.Find("somebody else", tokens[i])
		require.ErrorIs(t, err, taskpool.ErrUnknown)
	}
}
