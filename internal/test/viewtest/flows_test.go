package viewtest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func printed() *activity.Activity[fixture.Parcel, fixture.Tag] {
	return activity.New("print-label", func(_ context.Context, p fixture.Parcel) (fixture.Tag, error) {
		return fixture.Tag{Code: p.To + "/" + strconv.Itoa(p.Weight)}, nil
	})
}

// A flow that a program without its functions has published is described and started by its name.
func TestStartNamed(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		def := fixture.Shipping(t, fixture.Declared(), flow.Describe("Prints labels."))
		require.Equal(t, fixture.Shipping(t, printed()).Hash(), def.Hash(), "a declaration is as good as the function")
		_, err := b.Client.Flow("shipping").Start(ctx, json.RawMessage(`{}`))
		require.ErrorIs(t, err, enginecore.ErrFlowNotPublished)
		require.NoError(t, b.Client.Publish(ctx, runtime.Publication{Flow: def, By: "ann"}))
		flows, err := b.Client.Flows(ctx)
		require.NoError(t, err)
		require.Len(t, flows, 1)
		require.Equal(t, [5]string{"shipping", def.Hash(), "Prints labels.", "json", "ann"},
			[5]string{flows[0].Name, flows[0].Hash, flows[0].Doc, flows[0].Codec, flows[0].PublishedBy})
		d, err := b.Client.Flow("shipping").Describe(ctx)
		require.NoError(t, err)
		require.Equal(t, flows[0], d.Flow)
		require.Equal(t, [4]string{def.Mermaid(), def.DOT(), def.Outline(), def.SVG(flow.Drawing{})},
			[4]string{d.Mermaid(), d.DOT(), d.Outline(), d.SVG(flow.Drawing{})})
		down := flow.Drawing{TopDown: true}
		require.Equal(t, def.SVG(down), d.SVG(down))
		require.Contains(t, string(d.InputSchema), "the address")
		require.Contains(t, string(d.ResultSchema), "code")
		require.Len(t, d.History, 1)

		_, err = b.Client.Flow("shipping").Start(ctx, json.RawMessage(`{"weight":"heavy","wieght":1}`))
		require.ErrorIs(t, err, runtime.ErrInvalid)
		var fault *fabrictype.ValueError
		require.ErrorAs(t, err, &fault)
		var places []string
		for _, f := range fault.Faults {
			places = append(places, f.Pointer)
		}
		require.Equal(t, []string{"/to", "/weight", "/wieght"}, places, "all faults at once")
		_, err = b.Client.Flow("shipping").Start(ctx, nil)
		require.ErrorAs(t, err, &fault)

		b.Worker(t, []activity.Handler{printed()}, runtime.WorkerConfig{NoKeeper: true})
		run, err := b.Client.Flow("shipping").Start(ctx, json.RawMessage("{ \"to\": \"Lima\",\n \"weight\": 3 }"),
			runtime.WithID("one"), runtime.WithTag("team.name", "mail"))
		require.NoError(t, err)
		require.False(t, run.Existed())
		again, err := b.Client.Flow("shipping").Start(ctx, json.RawMessage(`{"to":"Lima","weight":3}`), runtime.WithID("one"),
			runtime.WithTag("team.name", "mail"))
		require.NoError(t, err)
		require.True(t, again.Existed())
		raw, err := again.Result(ctx)
		require.NoError(t, err)
		require.JSONEq(t, `{"code":"Lima/3"}`, string(raw))
		same, err := runtime.Start(ctx, b.Client, def, fixture.Parcel{To: "Lima", Weight: 3}, runtime.WithID("one"))
		require.NoError(t, err)
		require.True(t, same.Existed(), "the text without white space is the same input")
		out, err := same.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, fixture.Tag{Code: "Lima/3"}, out)
		described, err := run.Describe(ctx, runtime.DescribeOptions{Values: true, ValueBytes: 1000})
		require.NoError(t, err)
		require.JSONEq(t, `{"code":"Lima/3"}`, string(described.Result.JSON))
		b.Settle(t)
	})
}

// Publishing again changes nothing; another graph enters the history, which is bounded; the next start has it.
func TestPublishedVersions(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		version := func(i int) *flow.Definition[fixture.Parcel, fixture.Tag] {
			return fixture.Shipping(t, fixture.Declared(), flow.Tag("build.number", strconv.Itoa(i)))
		}
		publish := func(p runtime.Publication) { require.NoError(t, b.Client.Publish(ctx, p)) }
		publish(runtime.Publication{Flow: version(0), By: "first"})
		before := fixture.Contents(t, ctx, b)
		publish(runtime.Publication{Flow: version(0), By: "second"})
		require.Equal(t, before, fixture.Contents(t, ctx, b), "many programs publish the same")
		publish(runtime.Publication{Flow: version(0), OmitSchemas: true})
		d, err := b.Client.Flow("shipping").Describe(ctx)
		require.NoError(t, err)
		require.Len(t, d.History, 1, "the graph is the same")
		require.Nil(t, d.InputSchema)
		require.Nil(t, d.ResultSchema)
		run, err := b.Client.Flow("shipping").Start(ctx, json.RawMessage(`{"unchecked":true}`))
		require.NoError(t, err)
		require.NoError(t, run.Cancel(ctx, ""))
		_, err = b.Client.Flow("shipping").Start(ctx, json.RawMessage(`{"unchecked":`))
		require.ErrorIs(t, err, runtime.ErrInvalid)
		for i := range 60 {
			publish(runtime.Publication{Flow: version(i + 1)})
		}
		d, err = b.Client.Flow("shipping").Describe(ctx)
		require.NoError(t, err)
		require.Len(t, d.History, 50)
		require.Equal(t, version(60).Hash(), d.History[0].Hash)
		require.Equal(t, version(59).Hash(), d.History[1].Hash)
		run, err = b.Client.Flow("shipping").Start(ctx, json.RawMessage(`{"to":"Oslo","weight":1}`), runtime.WithID("r"))
		require.NoError(t, err)
		_, err = runtime.Start(ctx, b.Client, version(60), fixture.Parcel{To: "Oslo", Weight: 1}, runtime.WithID("r"))
		require.NoError(t, err, "it has the graph that was published last")
		require.NoError(t, run.Cancel(ctx, ""))
		require.NoError(t, b.Client.Flow("shipping").Withdraw(ctx))
		require.NoError(t, b.Client.Flow("shipping").Withdraw(ctx))
		_, err = b.Client.Flow("shipping").Describe(ctx)
		require.ErrorIs(t, err, enginecore.ErrFlowNotPublished)
		_, err = b.Client.Flow("shipping").Start(ctx, nil)
		require.ErrorIs(t, err, enginecore.ErrFlowNotPublished)
		b.Settle(t)
	})
}

// A worker publishes the flows that it is given.
func TestWorkersPublish(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		b.Worker(t, []activity.Handler{printed()}, runtime.WorkerConfig{
			NoKeeper: true, Publish: []runtime.Publication{{Flow: fixture.Shipping(t, printed())}, {Flow: fixture.Single(t, fixture.AddOne())}},
		})
		enginetest.Eventually(t, func() string {
			flows, err := b.Client.Flows(ctx)
			require.NoError(t, err)
			if len(flows) != 2 {
				return fmt.Sprintf("%d flows are published", len(flows))
			}
			return ""
		})
		b.Settle(t)
	})
}

// Publish refuses an invalid publication with all faults, before anything is written.
func TestPublicationsAreChecked(t *testing.T) {
	t.Parallel()
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		f := flow.New[func(), int]("odd")
		flow.Return(f, flow.Node(f, "n", activity.New("n", func(context.Context, int) (int, error) { return 1, nil }),
			flow.Const(1)))
		odd, err := f.Build()
		before := fixture.Contents(t, ctx, b)
		var none *flow.Definition[int, int]
		list := []runtime.Publication{
			{}, {Flow: none}, {Flow: &flow.Definition[int, int]{}},
			{Flow: fixture.Shipping(t, printed()), By: strings.Repeat("x", 300)}, {Flow: fixture.Shipping(t, printed())},
		}
		if err == nil {
			list = append(list, runtime.Publication{Flow: odd})
		}
		err = b.Client.Publish(ctx, list...)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		for _, item := range []string{"item 1:", "item 2:", "item 3:", "item 4:"} {
			require.ErrorContains(t, err, item)
		}
		require.NotContains(t, err.Error(), "item 5:")
		require.Equal(t, before, fixture.Contents(t, ctx, b))
		_, err = runtime.NewWorker(b.Engine, runtime.WorkerConfig{Publish: list[:1]})
		require.ErrorIs(t, err, runtime.ErrInvalid)
	})
}

// A declared activity cannot be registered or called.
func TestDeclaredActivities(t *testing.T) {
	t.Parallel()
	a := fixture.Declared()
	require.NoError(t, a.Err())
	require.False(t, a.HasFunction())
	_, err := a.Call(t.Context(), fixture.Parcel{})
	require.ErrorIs(t, err, activity.ErrInvalid)
	_, err = a.Invoke(t.Context(), []byte(`{}`))
	require.True(t, activityspec.IsNonRetryable(err))
	require.True(t, errors.Is(activity.Declare[int, int]("no name").Err(), activity.ErrInvalid))
	enginetest.Each(t, func(t *testing.T, b *enginetest.Bench) {
		w, err := runtime.NewWorker(b.Engine, runtime.WorkerConfig{})
		require.NoError(t, err)
		err = w.Register(a)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, `activity "print-label" is only declared`)
	})
}
