package admin_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/recordstate"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func (d *desk) rotate() {
	d.t.Helper()
	_, err := d.RotateSecret(d.ctx, enginecore.WaitpointSecret{KID: "k1", Hex: "00112233445566778899aabbccddeeff"}, time.Hour)
	require.NoError(d.t, err)
}

func TestWaitpointsAndSignals(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, b *enginetest.Bench) {
		d.rotate()
		id := d.create(admin.ExecutionSpec{})
		d.Suspend(d.Claim(id, 0), time.Time{})
		open, err := d.Waitpoints(d.ctx, id)
		require.NoError(t, err)
		require.Len(t, open, 1)
		require.Equal(t, "approval", open[0].Key)
		require.Equal(t, recordstate.WaitpointActive, open[0].State)
		require.Equal(t, []string{"yes", "no"}, open[0].Signals)
		signal := admin.Signal{
			Execution: id, Waitpoint: open[0].ID, Token: "k1:" + uuid.NewString(), Name: "yes", Payload: []byte(`{"by":"ann"}`), IdempotencyKey: "1",
		}
		_, err = d.DeliverSignal(d.ctx, signal)
		require.ErrorIs(t, err, enginecore.ErrInvalidToken)
		signal.Token = open[0].Token
		signal.Name, signal.IdempotencyKey = "other", "0"
		delivery, err := d.DeliverSignal(d.ctx, signal)
		require.NoError(t, err)
		require.NotEqual(t, recordstate.SignalResumed, delivery.Effect)
		require.Equal(t, fabrictype.NodeSuspended, d.state(id))
		again, err := d.DeliverSignal(d.ctx, signal)
		require.NoError(t, err)
		require.True(t, again.Duplicate)
		require.Equal(t, delivery.ID, again.ID)
		signal.Name, signal.IdempotencyKey = "yes", "1"
		delivery, err = d.DeliverSignal(d.ctx, signal)
		require.NoError(t, err)
		require.Equal(t, recordstate.SignalResumed, delivery.Effect)
		require.Equal(t, fabrictype.NodeWaiting, d.state(id))
		open, err = d.Waitpoints(d.ctx, id)
		require.NoError(t, err)
		require.Empty(t, open)
		b.Check(t, invariant.AnyTime)
	})
}

// A signal to the wait of a run satisfies the schema of the wait, whichever door it takes, and texts are bounded.
func TestSignalsToRunsAreChecked(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) { // contract mode has no schemas
		d := newDesk(t, b)
		f := flow.New[int, map[string]int]("asks")
		flow.Return(f, flow.Waitpoint[map[string]int](f, "ask", activity.AnswerSchema([]byte(`{"type":"object","required":["n"]}`))))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		run, err := runtime.Start(d.ctx, b.Client, def, 1)
		require.NoError(t, err)
		var waits []runtime.Waitpoint
		enginetest.Eventually(t, func() string {
			if waits, err = run.Waitpoints(d.ctx); err != nil || len(waits) != 1 {
				return "the wait is not open"
			}
			return ""
		})
		open, err := d.Waitpoints(d.ctx, enginecore.ExecutionID(waits[0].ExecutionID))
		require.NoError(t, err)
		signal := admin.Signal{Execution: enginecore.ExecutionID(waits[0].ExecutionID), Waitpoint: enginecore.WaitpointID(waits[0].ID), Token: open[0].Token, Name: "go"}
		for _, bad := range []string{`{"text":1}`, `7`, ``, `not json`} {
			signal.Payload = []byte(bad)
			_, err = d.DeliverSignal(d.ctx, signal)
			require.ErrorIs(t, err, admin.ErrInvalid, bad)
			_, found := errors.AsType[*fabrictype.ValueError](err)
			require.True(t, found, bad)
		}
		signal.Payload = []byte(`{"n":5,"deep":` + strings.Repeat("[", 1000) + strings.Repeat("]", 1000) + "}")
		_, err = d.DeliverSignal(d.ctx, signal)
		require.ErrorIs(t, err, admin.ErrInvalid)
		require.ErrorContains(t, err, "payload is nested 1001 deep, at most 1000 is allowed")
		signal.Payload = []byte(`{"n":5}`)
		for _, bad := range []string{strings.Repeat("x", 257), "a\nb"} {
			other := signal
			other.SourceIdentity = bad
			_, err = d.DeliverSignal(d.ctx, other)
			require.ErrorIs(t, err, admin.ErrInvalid, bad)
		}
		delivery, err := d.DeliverSignal(d.ctx, signal)
		require.NoError(t, err)
		require.Equal(t, recordstate.SignalResumed, delivery.Effect)
		result, err := run.Result(d.ctx)
		require.NoError(t, err)
		require.Equal(t, map[string]int{"n": 5}, result)
	})
}

// An approval that is rejected by a function of the contract fails with the comment, as with any other door.
func TestRejectionWithComment(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) { // contract mode rejects in the keeper
		d := newDesk(t, b)
		f := flow.New[int, []activity.Signal[activity.Decision]]("approves")
		flow.Return(f, flow.Approval(f, "ask"))
		def, err := f.Build()
		require.NoError(t, err)
		b.Keeper(t)
		run, err := runtime.Start(d.ctx, b.Client, def, 1)
		require.NoError(t, err)
		var open []admin.Waitpoint
		var id enginecore.ExecutionID
		enginetest.Eventually(t, func() string {
			waits, err := run.Waitpoints(d.ctx)
			if err != nil || len(waits) != 1 {
				return "the wait is not open"
			}
			id = enginecore.ExecutionID(waits[0].ExecutionID)
			open, err = d.Waitpoints(d.ctx, id)
			require.NoError(t, err)
			return ""
		})
		delivery, err := d.DeliverSignal(d.ctx, admin.Signal{
			Execution: id, Waitpoint: open[0].ID, Token: open[0].Token, Name: "reject", SourceIdentity: "ann",
			Payload: []byte(`{"choice":"reject","comment":"not on a Friday"}`),
		})
		require.NoError(t, err)
		require.Equal(t, recordstate.SignalResumed, delivery.Effect)
		_, err = run.Result(d.ctx)
		require.ErrorContains(t, err, "rejected by ann: not on a Friday")
	})
}

// A signal to a waitpoint that was made ahead of its wait is kept, and a waitpoint can be closed.
func TestSignalsAheadOfTheWait(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		d.rotate()
		id := d.create(admin.ExecutionSpec{})
		x := d.Claim(id, 0)
		made := d.OpenAhead(x)
		signal := admin.Signal{Execution: id, Waitpoint: made.WaitpointID, Token: made.WaitpointToken, Name: "yes"}
		delivery, err := d.DeliverSignal(d.ctx, signal)
		require.NoError(t, err)
		require.NotEmpty(t, delivery.ID)
		require.NoError(t, d.CloseWaitpoint(d.ctx, id, made.WaitpointID, "not needed"))
		_, err = d.DeliverSignal(d.ctx, signal)
		require.Error(t, err)
		require.ErrorIs(t, d.CloseWaitpoint(d.ctx, id, enginecore.WaitpointID(uuid.NewString()), ""), enginecore.ErrWaitpointNotFound)
	})
}

func TestSecretsRotateEverywhere(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		partitions := d.core.Partitioning().Flow
		secret := enginecore.WaitpointSecret{KID: "k1", Hex: "0011"}
		rotation, err := d.RotateSecret(d.ctx, secret, time.Hour)
		require.NoError(t, err)
		require.Equal(t, partitions, rotation.Rotated)
		rotation, err = d.RotateSecret(d.ctx, secret, time.Hour)
		require.NoError(t, err)
		require.Equal(t, partitions, rotation.Unchanged)
		secret.Hex = "1100"
		rotation, err = d.RotateSecret(d.ctx, secret, time.Hour)
		require.ErrorIs(t, err, enginecore.ErrRotationConflict)
		require.Len(t, rotation.Failed, partitions)
	})
}

func TestStreams(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d *desk, _ *enginetest.Bench) {
		id := d.create(admin.ExecutionSpec{})
		x := d.Claim(id, 0)
		frames, err := d.TailStream(d.ctx, id, 0, "", 0, 0)
		require.NoError(t, err)
		require.Empty(t, frames.Frames)
		d.Append(x, "one")
		d.Append(x, "two")
		frames, err = d.ReadStream(d.ctx, id, 0, "", "", 1)
		require.NoError(t, err)
		require.Len(t, frames.Frames, 1)
		require.Equal(t, "one", string(frames.Frames[0].Fields["payload"]))
		require.True(t, frames.ClosedAt.IsZero())
		frames, err = d.TailStream(d.ctx, id, 0, frames.Frames[0].ID, 0, 0)
		require.NoError(t, err)
		require.Len(t, frames.Frames, 1)
		last := frames.Frames[0].ID
		waiting := make(chan admin.Frames)
		go func() {
			frames, _ := d.TailStream(d.ctx, id, 0, last, 30*time.Second, 0)
			waiting <- frames
		}()
		d.Append(x, "three")
		frames = <-waiting
		require.Len(t, frames.Frames, 1)
		require.Equal(t, "three", string(frames.Frames[0].Fields["payload"]))
		ended, cancel := context.WithCancel(d.ctx)
		go cancel()
		_, err = d.TailStream(ended, id, 0, frames.Frames[0].ID, 30*time.Second, 0)
		require.ErrorIs(t, err, context.Canceled)
		d.Complete(x, "done")
		frames, err = d.TailStream(d.ctx, id, 0, frames.Frames[0].ID, 30*time.Second, 0)
		require.NoError(t, err)
		require.Equal(t, recordstate.StreamAttemptSucceeded, frames.ClosedReason)
	})
}
