package activity_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activitycontext"
)

// worker records the calls of the helpers.
type worker struct {
	info    activitycontext.Info
	lost    bool
	refuse  error
	beats   int
	percent []float64
	message string
}

func (w *worker) Info() activitycontext.Info      { return w.info }
func (w *worker) LeaseHealthy() bool              { return !w.lost }
func (w *worker) Heartbeat(context.Context) error { w.beats++; return w.refuse }
func (w *worker) Progress(_ context.Context, percent float64, message string) error {
	w.percent, w.message = append(w.percent, percent), message
	return nil
}

var errStop = errors.New("stop")

func TestOutsideWorker(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	if info, ok := activity.Info(ctx); ok || !reflect.DeepEqual(info, activity.ExecutionInfo{}) {
		t.Errorf("info %+v", info)
	}
	if !activity.LeaseHealthy(ctx) {
		t.Error("the lease is lost")
	}
	if err := errors.Join(activity.Heartbeat(ctx), activity.Progress(ctx, 50, "half")); err != nil {
		t.Error(err)
	}
	cancel(errStop)
	if err := activity.Heartbeat(ctx); err != errStop {
		t.Errorf("heartbeat after cancel: %v", err)
	}
	if err := activity.Progress(ctx, 50, ""); err != errStop {
		t.Errorf("progress after cancel: %v", err)
	}
}

func TestInsideWorker(t *testing.T) {
	t.Parallel()
	w := &worker{info: activitycontext.Info{
		Flow: "f", FlowID: "fid", RunID: "r", Node: "n", ExecutionID: "e", Attempt: 2,
		StartedAt: time.Unix(1, 0), Deadline: time.Unix(2, 0),
	}}
	parent, cancel := context.WithCancelCause(t.Context())
	ctx := activitycontext.With(parent, w)
	want := activity.ExecutionInfo{
		Flow: "f", FlowID: "fid", RunID: "r", Node: "n", ExecutionID: "e", Attempt: 2,
		StartedAt: time.Unix(1, 0), Deadline: time.Unix(2, 0),
	}
	if got, ok := activity.Info(ctx); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("info %+v", got)
	}
	for _, percent := range []float64{-1, 42, 101, math.Inf(1)} {
		if err := activity.Progress(ctx, percent, "m"); err != nil {
			t.Error(err)
		}
	}
	if got := w.percent; got[0] != 0 || got[1] != 42 || got[2] != 100 || got[3] != 100 || w.beats != 4 {
		t.Errorf("percents %v with %d heartbeats", got, w.beats)
	}
	if err := activity.Progress(ctx, math.NaN(), ""); err == nil || len(w.percent) != 4 {
		t.Errorf("NaN: %v", err)
	}
	w.lost = true
	if activity.LeaseHealthy(ctx) {
		t.Error("the lease is healthy")
	}
	w.refuse = errStop
	if err := activity.Progress(ctx, 1, ""); err != errStop || len(w.percent) != 4 {
		t.Errorf("progress after a refused heartbeat: %v", err)
	}
	cancel(errBase)
	if err := activity.Heartbeat(ctx); err != errBase || w.beats != 5 {
		t.Errorf("heartbeat after cancel: %v, %d beats", err, w.beats)
	}
}

func TestProgressMessage(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ message, want string }{
		{"", ""},
		{"a\xffb", "a\uFFFDb"},
		{strings.Repeat("x", 1024), strings.Repeat("x", 1024)},
		{strings.Repeat("x", 1025), strings.Repeat("x", 1024)},
		{strings.Repeat("x", 1023) + "é", strings.Repeat("x", 1023)},
	} {
		w := &worker{}
		if err := activity.Progress(activitycontext.With(t.Context(), w), 1, tc.message); err != nil || w.message != tc.want {
			t.Errorf("%.20q became %.20q (%d bytes), %v", tc.message, w.message, len(w.message), err)
		}
	}
}
