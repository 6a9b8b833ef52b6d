package servertest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// A worker with capabilities that the engine would refuse at each claim is not created.
func TestWorkerConfigIsChecked(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		for what, capabilities := range map[string][]string{
			"empty": {""}, "comma": {"a,b"}, "space": {"a b"}, "no-break space": {"a\u00a0b"}, "line separator": {"a\u2028b"},
			"control": {"a\x01b"}, "C1 control": {"a\u0085b"}, "too long": {strings.Repeat("x", 4097)},
			"too many": slices.Collect(func(yield func(string) bool) {
				for i := range 257 {
					if !yield("c" + strings.Repeat("y", i%10) + string(rune('a'+i%26)) + string(rune('a'+i/26))) {
						return
					}
				}
			}),
		} {
			_, err := runtime.NewWorker(b.Engine, runtime.WorkerConfig{Capabilities: capabilities})
			require.ErrorIs(t, err, runtime.ErrInvalid, what)
		}
		_, err := runtime.NewWorker(b.Engine, runtime.WorkerConfig{Capabilities: []string{"größe", "gpu", "gpu"}})
		require.NoError(t, err)
		for _, config := range []runtime.WorkerConfig{
			{Lanes: []string{"a\tb"}}, {Lanes: []string{"größe"}}, {Lanes: []string{""}}, {TaskKinds: []string{"a b"}}, {ManualRenewal: true},
		} {
			_, err := runtime.NewWorker(b.Engine, config)
			require.ErrorIs(t, err, runtime.ErrInvalid)
		}
		w, err := runtime.NewWorker(b.Engine, runtime.WorkerConfig{TaskKinds: []string{"work"}})
		require.NoError(t, err)
		require.ErrorIs(t, w.Register(fixture.Passing("work")), runtime.ErrInvalid)
		w, err = runtime.NewWorker(b.Engine, runtime.WorkerConfig{})
		require.NoError(t, err)
		_, err = w.Next(enginetest.Context(t))
		require.ErrorIs(t, err, runtime.ErrInvalid)
	})
}

func TestGrantRequestIDs(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		issuer := b.Engine
		for _, id := range []string{"", "a b", "a\nb", "\xff", strings.Repeat("x", 257)} {
			for _, r := range []enginecore.GrantRequest{
				{WorkerID: enginecore.WorkerID(id), Instance: "i"}, {WorkerID: "w", Instance: enginecore.WorkerInstanceID(id)},
			} {
				r.Lane, r.TTL = activity.DefaultLane, time.Second
				_, err := issuer.ClaimForWorker(enginetest.Context(t), r)
				require.ErrorIs(t, err, runtime.ErrInvalid, "%q", id)
			}
		}
	})
}

func TestPartitionsCannotChange(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		url, config := b.URL, runtime.OpenConfig{Prefix: enginetest.NewPrefix(), Logger: b.Logger()}
		if b.Kind == testserver.Embedded {
			url = "embedded:" + t.TempDir()
		}
		open := func(partitions int) error {
			config.Partitions = partitions
			e, err := runtime.Open(ctx, url, config)
			if err == nil {
				require.NoError(t, e.Close())
			}
			return err
		}
		require.NoError(t, open(4))
		require.ErrorIs(t, open(5), runtime.ErrInvalid)
		require.NoError(t, open(4))
		require.NoError(t, open(0), "the number of the deployment")
	})
}
