package valuetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin/archive"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginelink"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/errorcode"
	"github.com/flowfabric/flowfabric-go/internal/payload"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/invariant"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// quotes is how many bytes more a text has in JSON.
const quotes = 2

// turns is an activity that moves the first byte of a text to its end, so that each result differs from its input. The
// first attempt at a text whose first byte is "f" fails.
type turns struct {
	mu     sync.Mutex
	failed map[string]bool
	act    *activity.Activity[string, string]
}

func newTurns() *turns {
	x := &turns{failed: make(map[string]bool)}
	x.act = activity.New("turn", func(ctx context.Context, text string) (string, error) {
		if strings.HasPrefix(text, "f") && x.fails(ctx) {
			return "", errors.New("the first attempt fails")
		}
		return turn(text, 1), nil
	}, activity.Retry(activity.RetryPolicy{Attempts: 2, Factor: 1}))
	return x
}

func (x *turns) fails(ctx context.Context) bool {
	info, _ := activity.Info(ctx)
	x.mu.Lock()
	defer x.mu.Unlock()
	first := !x.failed[info.ExecutionID]
	x.failed[info.ExecutionID] = true
	return first
}

func turn(text string, times int) string { return text[times:] + text[:times] }

// text has a size in JSON, and a beginning by which its parts differ.
func text(begin string, size int) string {
	return begin + strings.Repeat("0123456789abcdef", size/16+1)[:size-quotes-len(begin)]
}

// chain is a flow of n nodes, of which each uses the result of the one before and the input.
func (x *turns) chain(t *testing.T, n int) *flow.Definition[string, string] {
	t.Helper()
	f := flow.New[string, string](fmt.Sprintf("chain-%d", n))
	ref := f.Input()
	for i := range n {
		ref = flow.Node(f, fmt.Sprintf("n%d", i), x.act, ref)
	}
	flow.Return(f, ref)
	return fixture.Build(t, f)
}

func result(t testing.TB, run *runtime.Run[string]) string {
	t.Helper()
	out, err := run.Result(enginetest.Context(t))
	require.NoError(t, err)
	return out
}

// keysWith returns the keys with a part.
func keysWith(t testing.TB, b *enginetest.Bench, part string) (list []string) {
	t.Helper()
	for _, key := range b.Check(t, invariant.AnyTime).KeyNames() {
		if strings.Contains(key, part) {
			list = append(list, key)
		}
	}
	return list
}

// forget removes the values that calls have sent in vain, which expire otherwise.
func forget(t testing.TB, b *enginetest.Bench) (forgotten int) {
	t.Helper()
	client := engine.ConnOf(b.Engine.Internal()).Client()
	for _, key := range keysWith(t, b, ":sent:") {
		ttl, err := client.Do(enginetest.Context(t), client.B().Pttl().Key(key).Build()).AsInt64()
		require.NoError(t, err)
		require.Positive(t, ttl, "%s must expire", key)
		require.NoError(t, client.Do(enginetest.Context(t), client.B().Del().Key(key).Build()).Error())
		forgotten++
	}
	return forgotten
}

// watched opens another engine on the server, with other data, whose commands are watched.
func watched(t *testing.T, b *enginetest.Bench) (*enginetest.Bench, *wires) {
	t.Helper()
	seen := &wires{}
	other := enginetest.Open(t, b.Kind, b.URL, enginetest.NewPrefix(), seen.config())
	t.Cleanup(func() { other.Wipe(t) })
	return other, seen
}

// Large values come out as they went in, from all kinds of runs, and no function has one of them as an argument. The
// purge of the runs leaves nothing.
func TestLargeValues(t *testing.T) {
	t.Parallel()
	seen := &wires{}
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		x := newTurns()
		b.Worker(t, []activity.Handler{x.act})
		b.Keeper(t)
		var runs []*runtime.Run[string]
		for _, nodes := range []int{1, 3, 12} {
			def := x.chain(t, nodes)
			for _, size := range []int{enginerpc.LargeValue - 1, enginerpc.LargeValue, 1 << 20} {
				if nodes == 12 && size > enginerpc.LargeValue {
					continue
				}
				in := text(fmt.Sprintf("f%d ", size), size)
				id := runtime.WithID(fmt.Sprint(size))
				run, err := runtime.Start(ctx, b.Client, def, in, id)
				require.NoError(t, err)
				require.True(t, turn(in, nodes) == result(t, run), "%d nodes, %d bytes", nodes, size)
				large := size >= enginerpc.LargeValue
				place := b.Locate(t, def.Name(), fmt.Sprint(size))
				require.Len(t, keysWith(t, b, string(place.FlowID)+":result:"), map[bool]int{true: nodes}[large])

				again, err := runtime.Start(ctx, b.Client, def, in, id)
				require.NoError(t, err)
				require.True(t, again.Existed())
				require.True(t, turn(in, nodes) == result(t, again))
				_, err = runtime.Start(ctx, b.Client, def, "other"+in[5:], id)
				require.ErrorIs(t, err, engine.ErrRunConflict)

				require.NoError(t, run.Rerun(ctx, fabrictype.RerunAll))
				require.True(t, turn(in, nodes) == result(t, run), "%d nodes, %d bytes, rerun", nodes, size)
				runs = append(runs, run)
				if nodes == 3 {
					fork, err := run.Fork(ctx, runtime.ForkOptions{From: []string{"n1"}})
					require.NoError(t, err)
					forked, err := runtime.Attach(fork, def)
					require.NoError(t, err)
					require.True(t, turn(in, nodes) == result(t, forked), "%d bytes, fork", size)
					runs = append(runs, forked)
				}
			}
		}
		b.Settle(t)
		require.Positive(t, forget(t, b), "repeated starts send their values in vain")
		for _, run := range runs {
			require.NoError(t, run.Purge(ctx))
		}
		b.Settle(t)
		fixture.NothingLeft(t, b)
	}, seen.config())
	longest, of, sets := seen.counts()
	require.Less(t, longest, enginerpc.LargeValue, "an argument of %s", of)
	require.Positive(t, sets)
}

// The items of a map have large values, and so has the list of their results.
func TestLargeItems(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		x := newTurns()
		b.Worker(t, []activity.Handler{x.act})
		b.Keeper(t)
		f := flow.New[[]string, []string]("items")
		flow.Return(f, flow.Map(f, "each", x.act, f.Input()))
		def := fixture.Build(t, f)
		var in, want []string
		for i := range 12 {
			in = append(in, text(fmt.Sprintf("%d ", i), 3000*(i+1)))
			want = append(want, turn(in[i], 1))
		}
		run, err := runtime.Start(ctx, b.Client, def, in)
		require.NoError(t, err)
		out, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, want, out)
		b.Settle(t)
		require.NoError(t, run.Purge(ctx))
		enginetest.Eventually(t, func() string { return strings.Join(keysWith(t, b, ":flow:"), " ") })
		b.Settle(t)
		forget(t, b)
		fixture.NothingLeft(t, b)
	})
}

// An archive has large values, and so has the description of a run.
func TestLargeValuesAreArchived(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		x := newTurns()
		b.Worker(t, []activity.Handler{x.act})
		def := x.chain(t, 2)
		in := text("archived", 100_000)
		run, err := runtime.Start(ctx, b.Client, def, in, runtime.WithID("one"))
		require.NoError(t, err)
		require.True(t, turn(in, 2) == result(t, run))
		dir := t.TempDir()
		_, err = archive.Write(ctx, b.Client, archive.Config{Dir: dir})
		require.NoError(t, err)
		kept, err := archive.Open(dir)
		require.NoError(t, err)
		archived, err := kept.Run(def.Name(), "one")
		require.NoError(t, err)
		d := archived.Description()
		require.True(t, `"`+in+`"` == string(d.Input.JSON), "the input")
		for i, node := range d.Nodes {
			require.True(t, `"`+turn(in, i)+`"` == string(node.Input.JSON), "the input of %s", node.Name)
			require.True(t, `"`+turn(in, i+1)+`"` == string(node.Result.JSON), "the result of %s", node.Name)
		}
		require.True(t, `"`+turn(in, 2)+`"` == string(d.Result.JSON), "the result")
	})
}

// A call whose values are gone when it comes is sent again with them.
func TestMissingValuesAreSentAgain(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		x := newTurns()
		other, seen := watched(t, b)
		def := x.chain(t, 1)
		in := text("missing", 10_000)
		seen.lose(1)
		run, err := runtime.Start(enginetest.Context(t), other.Client, def, in)
		require.NoError(t, err)
		_, _, before := seen.counts()
		require.Greater(t, before, 1)
		seen.lose(1)
		other.Worker(t, []activity.Handler{x.act})
		require.True(t, turn(in, 1) == result(t, run))
		_, _, sets := seen.counts()
		require.Equal(t, before+2, sets)
	})
}

// leased is a node under a lease.
type leased struct {
	place enginetest.RunPlace
	node  enginerpc.ClaimedExecution
}

// claimOne starts a run of one node, and leases the node.
func claimOne(t *testing.T, b *enginetest.Bench, def *flow.Definition[string, string], in string) leased {
	t.Helper()
	ctx, core := enginetest.Context(t), engine.ConnOf(b.Engine.Internal())
	_, err := runtime.Start(ctx, b.Client, def, in, runtime.WithID("one"))
	require.NoError(t, err)
	l := leased{place: b.Locate(t, def.Name(), "one")}
	l.claim(ctx, t, core)
	return l
}

func (l *leased) claim(ctx context.Context, t *testing.T, core *enginerpc.Conn) {
	t.Helper()
	reply, err := core.Work(ctx, enginerpc.WorkCall{Partition: l.place.Partition, ClaimRequest: enginerpc.ClaimRequest{
		LaneID: "default", WorkerID: "w", WorkerInstanceID: "w1", ClaimID: uuid.NewString(), Count: 1,
		LeaseTTL: time.Hour, Kinds: "\nturn\n",
	}})
	require.NoError(t, err)
	require.Len(t, reply.Executions, 1)
	l.node = reply.Executions[0]
}

func (l *leased) complete(ctx context.Context, t *testing.T, core *enginerpc.Conn, result string) string {
	t.Helper()
	x := l.node
	reply, err := core.Work(ctx, enginerpc.WorkCall{
		Partition: l.place.Partition,
		ClaimRequest: enginerpc.ClaimRequest{
			LaneID: "default", WorkerID: "w", WorkerInstanceID: "w1", ClaimID: uuid.NewString(), LeaseTTL: time.Hour, Kinds: "\nturn\n",
		},
		Completions: []enginerpc.WorkCompletion{enginerpc.Completed(&x, []byte(result))},
	})
	require.NoError(t, err)
	return reply.Outcomes
}

// The result of a worker that has lost its lease is not visible, and expires.
func TestStaleWorkerOverwritesNothing(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx, core := enginetest.Context(t), engine.ConnOf(b.Engine.Internal())
		def := newTurns().chain(t, 1)
		l := claimOne(t, b, def, text("input", 5000))
		require.True(t, `"`+text("input", 5000)+`"` == string(l.node.FlowInput))
		forget(t, b)
		stale := l
		_, err := core.Release(ctx, enginerpc.ReleaseCall{
			Partition: l.place.Partition, ExecutionID: l.node.ExecutionID, LeaseID: l.node.LeaseID, LeaseEpoch: l.node.LeaseEpoch,
			AttemptID: l.node.AttemptID,
		})
		require.NoError(t, err)
		l.claim(ctx, t, core)
		require.NotEqual(t, "OK", stale.complete(ctx, t, core, `"`+text("stale", 5000)+`"`))
		require.Empty(t, keysWith(t, b, ":result:"))
		require.Equal(t, 1, forget(t, b))

		good := text("good", 5000)
		require.Equal(t, "OK", l.complete(ctx, t, core, `"`+good+`"`))
		require.NotEqual(t, "OK", stale.complete(ctx, t, core, `"`+text("stale", 5000)+`"`))
		require.Equal(t, "ALREADY_SATISFIED", l.complete(ctx, t, core, `"`+text("again", 5000)+`"`))
		run, err := runtime.Attach(b.Client.Run(def.Name(), "one"), def)
		require.NoError(t, err)
		require.True(t, good == result(t, run))
		require.Equal(t, 2, forget(t, b))
	})
}

// A call that names a value which is gone changes nothing: neither a start nor a completion.
func TestCallsWithoutTheirValuesAreRefused(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		other, seen := watched(t, b)
		core := engine.ConnOf(other.Engine.Internal())
		def := newTurns().chain(t, 1)
		l := claimOne(t, other, def, "short")
		seen.lose(100)
		_, err := runtime.Start(ctx, other.Client, def, text("gone", 5000), runtime.WithID("two"))
		require.ErrorIs(t, err, errorcode.ValueMissing)
		_, err = other.Client.Run(def.Name(), "two").Describe(ctx)
		require.ErrorIs(t, err, engine.ErrRunNotFound)

		require.Equal(t, string(errorcode.ValueMissing), l.complete(ctx, t, core, `"`+text("gone", 5000)+`"`))
		x := l.node
		_, err = core.Complete(ctx, enginerpc.CompleteCall{
			Partition: l.place.Partition, ExecutionID: x.ExecutionID, LeaseID: x.LeaseID, LeaseEpoch: x.LeaseEpoch,
			AttemptID: x.AttemptID, Result: []byte(`"` + text("gone", 5000) + `"`),
			ClaimRequest: enginerpc.ClaimRequest{LaneID: "default", WorkerID: "w", WorkerInstanceID: "w1", Kinds: "\nturn\n"},
		})
		require.ErrorIs(t, err, errorcode.ValueMissing)
		seen.lose(0)
		require.Equal(t, "OK", l.complete(ctx, t, core, `"`+text("there", 5000)+`"`))
	})
}

// Bytes that look like the name of a value, or like a list of the library, are a value, from programs of the library and of the
// contract.
func TestNamesOfValuesAreValues(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]string{
		"a name": "\x00kept ", "a mark": "\x00list ", "a list": "\x00list s\x01", "a large list": "\x00list p" + text("x", 5000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
				ctx, core, secret := enginetest.Context(t), engine.ConnOf(b.Engine.Internal()), secret
				def := newTurns().chain(t, 1)
				l := claimOne(t, b, def, text("input", 5000))
				if name == "a name" {
					secret += l.place.Partition.Tag() + ":" + string(l.place.FlowID) + ":input 5002 "
				}
				require.Equal(t, "OK", l.complete(ctx, t, core, secret))
				stored, err := fixture.ResultOf(ctx, b, l.node.ExecutionID)
				require.NoError(t, err)
				require.Equal(t, secret, string(stored))
			})
		})
	}
}

// ring returns a ring with the keys of the ids, and the configuration of engines that seal with it.
func ring(t *testing.T, ids ...string) (r *payload.Ring, keys func(ids ...string), config runtime.OpenConfig) {
	t.Helper()
	r = &payload.Ring{}
	keys = func(ids ...string) {
		list := make([]payload.Key, len(ids))
		for i, id := range ids {
			list[i] = payload.Key{ID: id, Secret: []byte(strings.Repeat(id, payload.KeyBytes)[:payload.KeyBytes])}
		}
		require.NoError(t, r.Replace(list...))
	}
	keys(ids...)
	link := &enginelink.Link{Payloads: &payload.Pipeline{Keys: r, Compress: true}}
	return r, keys, runtime.OpenConfig{Internal: enginelink.HandleOf(link)}
}

// An engine has inputs, results, steps, states and values of a run sealed, of any size. The keys may change in between.
func TestSealedValues(t *testing.T) {
	t.Parallel()
	const secret = "4111-1111-1111"
	_, keys, config := ring(t, "k1")
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		a := activity.New("charge", func(ctx context.Context, card string) (string, error) {
			step, err := activity.Step(ctx, "tokenize", func(context.Context) (string, error) { return card + " token", nil })
			if err == nil {
				err = activity.Publish(ctx, "card", card[:len(secret)])
			}
			return step, err
		})
		both := activity.New("both", func(_ context.Context, list []string) ([]string, error) { return list, nil })
		f := flow.New[string, []string]("cards")
		one := flow.Node(f, "one", a, f.Input())
		flow.Return(f, flow.Node(f, "both", both, flow.List(one, flow.Node(f, "two", a, one))))
		def, err := f.Build()
		require.NoError(t, err)
		b.KeepingWorker(t, def.Handlers())
		for _, size := range []int{0, 3_000, 300_000} {
			in := secret + text("", size+quotes)
			run, err := runtime.Start(ctx, b.Client, def, in)
			require.NoError(t, err)
			got, err := run.Result(ctx)
			require.NoError(t, err)
			require.Equal(t, []string{in + " token", in + " token token"}, got)
			keys("k2", "k1")
			d, err := run.Describe(ctx, runtime.DescribeOptions{Values: true, ValueBytes: 100})
			require.NoError(t, err)
			require.Contains(t, string(d.Input.Bytes()), secret)
		}
		require.NotContains(t, fmt.Sprintf("%+v", b.Settle(t)), secret)
	}, config)
}

// A program without the key of a value returns the execution, and the reason names the key. The run continues once a
// program has the key.
func TestMissingPayloadKey(t *testing.T) {
	t.Parallel()
	enginetest.EachAlone(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		_, keys, config := ring(t, "k1")
		sealing := enginetest.Open(t, b.Kind, b.URL, b.Prefix, config)
		if b.Kind == testserver.Embedded {
			b = sealing
		}
		x := newTurns()
		def := x.chain(t, 2)
		run, err := runtime.Start(ctx, sealing.Client, def, "abc")
		require.NoError(t, err)
		keys("k2")
		sealing.KeepingWorker(t, []activity.Handler{x.act})
		enginetest.Eventually(t, func() string {
			d, err := run.Describe(ctx)
			require.NoError(t, err)
			if why := fmt.Sprint(d.Nodes[0].Waiting); !strings.Contains(why, `payload key missing: "k1"`) {
				return "the node waits because of " + why
			}
			return ""
		})
		keys("k2", "k1")
		require.Equal(t, "cab", result(t, run))
		keys("k3")
		_, err = run.Result(ctx)
		require.ErrorIs(t, err, payload.ErrKeyMissing)
		keys("k2")
		require.Equal(t, "cab", result(t, run), "the key that was the first when the result was written")
	})
}
