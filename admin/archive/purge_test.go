package archive_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A run that ends anew between the last read of it and its purge is kept and reported, and the next Write archives the
// new end before it purges the run.
func TestRunsChangedBeforeTheirPurgeAreKept(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		b.KeepingWorker(t, []activity.Handler{load})
		def := loading(t)
		// Each changes the run, and returns the reruns and the input that its new end has.
		changes := map[string]func(ctx context.Context, t *testing.T, run *runtime.Run[int]) (reruns int, input string){
			"rerun": func(ctx context.Context, t *testing.T, run *runtime.Run[int]) (int, string) {
				require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
				_, err := run.Result(ctx)
				require.NoError(t, err)
				return 1, "4"
			},
			"purged and started again": func(ctx context.Context, t *testing.T, run *runtime.Run[int]) (int, string) {
				require.NoError(t, run.Purge(ctx))
				start(t, b, def, run.ID(), 5)
				return 0, "5"
			},
		}
		for name, change := range changes {
			t.Run(name, func(t *testing.T) {
				ctx, dir := enginetest.Context(t), t.TempDir()
				run := start(t, b, def, "changed", 4)
				c := archive.Config{Dir: dir, PurgeAfter: 1}
				reruns, input := 0, ""
				report, err := archive.WriteWith(ctx, b.Client, c, func(what string) {
					if what == "purge" {
						enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), 0) // the clock shows another millisecond than at the archived end
						reruns, input = change(ctx, t, run)
					}
				})
				require.NoError(t, err)
				require.Equal(t, archive.Report{Archived: 1, Changed: 1}, report)
				d, err := b.Client.Run("loading", "changed").Describe(ctx)
				require.NoError(t, err, "the new end is not archived")
				require.Equal(t, reruns, d.Reruns)

				report, err = archive.Write(ctx, b.Client, c)
				require.NoError(t, err)
				require.Equal(t, archive.Report{Archived: 1, Purged: 1}, report)
				_, err = b.Client.Run("loading", "changed").Describe(ctx)
				require.ErrorIs(t, err, engine.ErrRunNotFound)
				require.Equal(t, []string{"changed", "changed"}, entries(t, dir))
				a, err := archive.Open(dir)
				require.NoError(t, err)
				last, err := a.Run("loading", "changed")
				require.NoError(t, err)
				require.True(t, d.ClosedAt.Equal(last.ClosedAt))
				require.Equal(t, reruns, last.Description().Reruns)
				require.Equal(t, input, string(last.Description().Nodes[0].Input.Bytes()))
			})
		}
	})
}

// A run that is open again when it is to be purged is kept, and taken when it is over.
func TestRunsReopenedBeforeTheirPurgeAreKept(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, dir := enginetest.Context(t), t.TempDir()
		b.Keeper(t)
		worker := b.Worker(t, []activity.Handler{load})
		run := start(t, b, loading(t), "reopened", 4)
		c := archive.Config{Dir: dir, PurgeAfter: 1}
		report, err := archive.WriteWith(ctx, b.Client, c, func(what string) {
			if what == "purge" {
				enginetest.Pass(t, engine.ConnOf(b.Engine.Internal()), time.Millisecond)
				worker.Stop() // no worker can end the rerun
				require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
			}
		})
		require.NoError(t, err)
		require.Equal(t, archive.Report{Archived: 1, Changed: 1}, report)
		report, err = archive.Write(ctx, b.Client, c)
		require.NoError(t, err)
		require.Equal(t, archive.Report{}, report)
		b.Worker(t, []activity.Handler{load})
		_, err = run.Result(ctx)
		require.NoError(t, err)
		report, err = archive.Write(ctx, b.Client, c)
		require.NoError(t, err)
		require.Equal(t, archive.Report{Archived: 1, Purged: 1}, report)
	})
}
