package waittest

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// Labels with control characters for a terminal, or with bytes that are not text, are refused before anything is
// written, and the error names the label.
func TestLabelsWithControlCharactersAreRefused(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	def := fixture.Waiter(t, "labels")
	run, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("there"))
	require.NoError(t, err)
	token := fixture.OpenWaits(t, ctx, run, 1)[0].Token
	before := fixture.Contents(t, ctx, b)
	for _, bad := range []string{"x\n", "\x1b[31m", "\x00", "\x7f", "\u009b31m", "\xff", "a\xc3"} {
		_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("new"), runtime.WithTag("a.b", bad))
		require.ErrorIs(t, err, runtime.ErrInvalid, "%q", bad)
		require.ErrorContains(t, err, `of "a.b": it `)
		_, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithID("new"), runtime.WithTag("a."+bad, "x"))
		require.ErrorIs(t, err, runtime.ErrInvalid, "%q", bad)
		_, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithID("new"), runtime.WithActor(bad))
		require.ErrorContains(t, err, "actor", "%q", bad)
		_, err = runtime.Schedule(ctx, b.Client, "s", def, 1, runtime.ScheduleConfig{Every: time.Hour, Actor: bad})
		require.ErrorIs(t, err, runtime.ErrInvalid, "%q", bad)
		_, err = runtime.Schedule(ctx, b.Client, "s", def, 1, runtime.ScheduleConfig{
			Every: time.Hour, Tags: map[string]string{"a.b": bad},
		})
		require.ErrorIs(t, err, runtime.ErrInvalid, "%q", bad)
		_, err = b.Client.Signal(ctx, token, runtime.Signal{Name: "x", Source: bad, Payload: 1})
		require.ErrorIs(t, err, runtime.ErrInvalid, "%q", bad)
		require.ErrorContains(t, err, "source")
		require.Error(t, b.Client.Lane("lane"+bad).Pause(ctx, ""), "%q", bad)
	}
	long := runtime.WithActor(strings.Repeat("x", engine.MaxActor+1))
	_, err = runtime.Start(ctx, b.Client, def, 1, runtime.WithID("new"), long)
	require.ErrorContains(t, err, "it has 257 bytes, at most 256 are allowed")
	require.Equal(t, before, fixture.Contents(t, ctx, b))
	d, err := b.Client.Signal(ctx, token, runtime.Signal{Name: "x", Source: "Zoë <zoe@example.org>", Payload: 1})
	require.NoError(t, err)
	require.Equal(t, fabrictype.SignalResumed, d.Outcome)
}
