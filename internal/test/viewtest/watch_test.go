package viewtest

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A watch begun before a node runs sees the events while it waits, and ends with the run.
func TestWatchFollowsTheRun(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Kinds(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			url := enginetest.URL(t, kind)
			ctx, cancel := context.WithTimeout(t.Context(), enginetest.Patience)
			defer cancel()
			go1 := make(chan struct{})
			gate := activity.New("gate", func(ctx context.Context, n int) (int, error) {
				select {
				case <-go1:
				case <-ctx.Done():
				}
				return n, nil
			})
			f := flow.New[int, int]("watched")
			flow.Return(f, flow.Node(f, "second", gate, flow.Node(f, "first", gate, f.Input())))
			def, err := f.Build()
			require.NoError(t, err)
			local, err := runtime.OpenLocal(ctx, runtime.LocalConfig{
				URL: url, Activities: def.Handlers(), Open: runtime.OpenConfig{Prefix: "watch"},
			})
			require.NoError(t, err)
			defer func() { require.NoError(t, local.Close()) }()
			run, err := runtime.Start(ctx, local.Client(), def, 1)
			require.NoError(t, err)
			var seen []string
			for event, err := range run.Watch(ctx, "") {
				require.NoError(t, err)
				seen = append(seen, string(event.Kind)+" "+event.Node)
				if event.Kind == "started" && event.Node == "first" {
					close(go1)
				}
				require.False(t, event.At.IsZero())
			}
			require.Equal(t, []string{
				"flow_submitted ", "started first", "success first", "started second", "success second", "flow_success ",
			}, seen)
			for _, err := range local.Client().Run("watched", "nobody").Watch(ctx, "") {
				require.ErrorIs(t, err, engine.ErrRunNotFound)
			}
		})
	}
}

// A watch of a run that was run again does not stop at the first end, and one from the last event on ends at once.
func TestWatchOfARunThatWasRunAgain(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		s := fixture.NewShop()
		b.Worker(t, []activity.Handler{s.Act})
		b.Keeper(t)
		s.Breaks("a")
		run := s.Start(t, b, s.Flow(t, "seen", "a:"))
		s.Breaks()
		require.NoError(t, run.Rerun(ctx, fabrictype.RerunFailed))
		_, err := run.Result(ctx)
		require.NoError(t, err)
		var seen []string
		last := ""
		for event, err := range run.Watch(ctx, "") {
			require.NoError(t, err)
			seen, last = append(seen, string(event.Kind)), event.ID
		}
		require.Equal(t, []string{
			"flow_submitted", "started", "failed", "flow_failed", "flow_reopened", "flow_rerun", "replayed", "started", "success",
			"flow_success",
		}, seen)
		for event, err := range run.Watch(ctx, last) {
			require.Fail(t, "nothing comes any more", "%v %v", event, err)
		}
		require.NoError(t, run.Purge(ctx))
		for _, err := range run.Watch(ctx, last) {
			require.ErrorIs(t, err, engine.ErrRunNotFound)
		}
	})
}
