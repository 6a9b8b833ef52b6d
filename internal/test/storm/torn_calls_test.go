package storm

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// The calls that are torn: clients' calls by name, work for any call of a worker or keeper.
var tornCalls = []string{"submit", "work", "signal", "cancel"}

// cutsOf is how many calls TestTornCalls tears on each server: a few, or FLOWFABRIC_TORN.
func cutsOf(t *testing.T) int {
	t.Helper()
	text := os.Getenv("FLOWFABRIC_TORN")
	if text == "" {
		return 2 * len(tornCalls)
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err, "FLOWFABRIC_TORN")
	return n
}

// TestTornCalls kills a server at an arbitrary point of a call. The server then loads the rest of its log, works, dies
// and loads again: without a repair of the log, the second load applies a part of the torn call. No run may get stuck.
// Repairs that keepers make only every ten minutes are too late for this test.
func TestTornCalls(t *testing.T) {
	t.Parallel()
	for _, kind := range testserver.Servers(t) {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			x := newTornBench(t, kind)
			for i := range cutsOf(t) {
				x.cut(t, i)
			}
			t.Logf("%d calls torn; after the second start all runs were over within %s at most", cutsOf(t), x.longest.Round(time.Millisecond))
		})
	}
}

// tornBench is a server with a worker and a keeper, of which calls are torn.
type tornBench struct {
	*enginetest.Bench
	server  *testserver.Server
	random  *rand.Rand
	def     *flow.Definition[int, int]
	longest time.Duration
}

func newTornBench(t *testing.T, kind testserver.Kind) *tornBench {
	t.Helper()
	seed := randseed.Of(t, 0)
	server := testserver.Start(t, testserver.Options{Kind: kind, Persist: true, KeepTorn: true})
	keepOnFailure(t, server)
	x := &tornBench{
		Bench: enginetest.Open(t, kind, server.URL(), enginetest.NewPrefix(), runtime.OpenConfig{
			Partitions: 2,
		}), server: server,
		random: rand.New(rand.NewPCG(seed, 3)),
	}
	step := activity.New("storm.step", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	shaky := activity.New("storm.shaky", func(ctx context.Context, n int) (int, error) {
		if info, _ := activity.Info(ctx); info.Attempt == 1 {
			return 0, errors.New("not yet")
		}
		return n, nil
	})
	x.def = tornFlow(t, step, shaky)
	x.Worker(t, []activity.Handler{step, shaky}, runtime.WorkerConfig{Lease: time.Second})
	x.Keeper(t)
	return x
}

// tornFlow is a flow that branches, retries, joins and waits for the signal "go".
func tornFlow(t *testing.T, step *activity.Activity[int, int], shaky *activity.Activity[int, int]) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int]("torn")
	first := flow.Node(f, "first", step, f.Input())
	left, right := flow.Node(f, "left", step, first), flow.Node(f, "right", shaky, first, activity.Retry(activity.RetryPolicy{First: time.Millisecond, Attempts: 4}))
	gate := flow.Waitpoint[int](f, "gate", flow.After(left, right))
	flow.Return(f, flow.Node(f, "last", step, gate))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// cut tears one call and sees that everything that was begun ends.
func (x *tornBench) cut(t *testing.T, i int) {
	t.Helper()
	ctx := enginetest.Context(t)
	call := tornCalls[i%len(tornCalls)]
	torn := &tornRun{id: fmt.Sprintf("torn-%d", i)}
	if call != "submit" {
		x.start(t, ctx, torn)
		x.awaitGate(t, ctx, torn)
	}
	log, before := logOf(t, x.server)
	switch call {
	case "submit":
		x.start(t, ctx, torn)
	case "work":
		x.start(t, ctx, &tornRun{id: fmt.Sprintf("more-%d", i)})
		x.awaitGate(t, ctx, &tornRun{id: fmt.Sprintf("more-%d", i)})
	case "signal":
		x.signal(ctx, torn)
	case "cancel":
		require.NoError(t, x.attach(t, torn).Cancel(ctx, "torn"))
	}
	x.server.Kill()
	at, size := x.choose(t, log, before, call == "submit" || call == "cancel")
	place := at.begin + int64(len(multi)) + 1 + x.random.Int64N(at.end-at.begin-int64(len(multi))-1)
	require.NoError(t, os.Truncate(log, place))
	where := fmt.Sprintf("cut %d: %s, %d of %d bytes, the log had %d", i, call, place-at.begin, at.end-at.begin, size)
	x.server.Restart()
	other := &tornRun{id: fmt.Sprintf("other-%d", i)}
	x.start(t, ctx, other)
	x.awaitGate(t, ctx, other)
	x.server.Restart()
	again := time.Now()
	runs := []*tornRun{torn, other}
	if call == "work" {
		runs = append(runs, &tornRun{id: fmt.Sprintf("more-%d", i)})
	}
	for _, run := range runs {
		x.finish(t, ctx, run, where)
	}
	took := time.Since(again)
	x.longest = max(x.longest, took)
	t.Logf("%s: all was over after %s", where, took.Round(time.Millisecond))
}

// tornRun is a run that has to end.
type tornRun struct{ id string }

// start starts a run until that is acknowledged.
func (x *tornBench) start(t *testing.T, ctx context.Context, r *tornRun) {
	t.Helper()
	enginetest.Eventually(t, func() string {
		if _, err := runtime.Start(ctx, x.Client, x.def, 1, runtime.WithID(r.id)); err != nil {
			return err.Error()
		}
		return ""
	})
}

func (x *tornBench) attach(t *testing.T, r *tornRun) *runtime.Run[int] {
	t.Helper()
	run, err := runtime.Attach(x.Client.Run(x.def.Name(), r.id), x.def)
	require.NoError(t, err)
	return run
}

// awaitGate waits until the run waits for its signal.
func (x *tornBench) awaitGate(t *testing.T, ctx context.Context, r *tornRun) {
	t.Helper()
	run := x.attach(t, r)
	enginetest.Eventually(t, func() string {
		if open, err := run.Waitpoints(ctx); err != nil || len(open) == 0 {
			return fmt.Sprint("no open gate in ", r.id, ", ", err)
		}
		return ""
	})
}

func (x *tornBench) signal(ctx context.Context, r *tornRun) {
	run, err := runtime.Attach(x.Client.Run(x.def.Name(), r.id), x.def)
	if err != nil {
		return
	}
	open, _ := run.Waitpoints(ctx) // the caller retries
	for _, w := range open {
		_, _ = x.Client.Signal(ctx, w.Token, runtime.Signal{Name: "go", Payload: 7, IdempotencyKey: r.id})
	}
}

// finish acts as a client that keeps the ids of its runs, until the run has ended.
func (x *tornBench) finish(t *testing.T, ctx context.Context, r *tornRun, where string) {
	t.Helper()
	run := x.attach(t, r)
	enginetest.EventuallyWithin(t, tornPatience, func() string {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		_, err := run.Result(short)
		switch {
		case err == nil, errors.Is(err, runtime.ErrRunCancelled):
			return ""
		case errors.Is(err, engine.ErrRunNotFound):
			_, err = runtime.Start(ctx, x.Client, x.def, 1, runtime.WithID(r.id))
		case errors.Is(err, context.DeadlineExceeded):
			x.signal(ctx, r)
		}
		d, _ := run.Describe(ctx)
		return fmt.Sprintf("%s: run %s is not over: %v\n%+v", where, r.id, err, d)
	})
}

// tornPatience is far above the duration of an immediate reconciliation, and below the interval of ten minutes.
const tornPatience = enginetest.Patience / 2

const multi = "*1\r\n$5\r\nMULTI\r\n"

// transaction is the position of a call in a log.
type transaction struct{ begin, end int64 }

// choose picks a call that was logged after an offset: the largest, or any. It also returns the size of the log.
func (x *tornBench) choose(t *testing.T, log string, from int64, largest bool) (transaction, int64) {
	t.Helper()
	file, err := os.Open(log)
	require.NoError(t, err)
	defer file.Close()
	_, err = file.Seek(from, io.SeekStart)
	require.NoError(t, err)
	text, err := io.ReadAll(bufio.NewReader(file))
	require.NoError(t, err)
	const exec = "*1\r\n$4\r\nEXEC\r\n"
	var found []transaction
	for at := 0; ; {
		begin := bytes.Index(text[at:], []byte(multi))
		if begin < 0 {
			break
		}
		length := bytes.Index(text[at+begin:], []byte(exec))
		if length < 0 {
			break
		}
		found = append(found, transaction{from + int64(at+begin), from + int64(at+begin+length+len(exec))})
		at += begin + length + len(exec)
	}
	require.NotEmpty(t, found, "no call was logged")
	chosen := found[x.random.IntN(len(found))]
	for _, c := range found {
		if largest && c.end-c.begin > chosen.end-chosen.begin {
			chosen = c
		}
	}
	return chosen, from + int64(len(text))
}
