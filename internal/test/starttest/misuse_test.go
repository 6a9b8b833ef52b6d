package starttest

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/flowfabric/flowfabric-go/contract"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// An option that is nil is an error that names the option, wherever options are taken.
func TestNilOptions(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	a := fixture.AddOne()
	def := fixture.ChainOf(t, a, 1)
	_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("there"))
	require.NoError(t, err)
	for name, call := range map[string]func() error{
		"start": func() error { _, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("new"), nil); return err },
		"start with a nil of its own type": func() error {
			_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("new"), runtime.ActionOption(nil))
			return err
		},
		"cancel": func() error { return b.Client.Run(def.Name(), "there").Cancel(ctx, "", runtime.WithActor("x"), nil) },
		"one node": func() error {
			return b.Client.Run(def.Name(), "there").CancelNode(ctx, "n0", "", runtime.WithActor("x"), nil)
		},
		"rerun": func() error {
			return b.Client.Run(def.Name(), "there").Rerun(ctx, fabrictype.RerunAll, runtime.WithActor("x"), nil)
		},
	} {
		require.ErrorContains(t, call(), "option 2 is nil", name)
	}
	_, err = b.Client.Run(def.Name(), "new").Describe(ctx)
	require.ErrorIs(t, err, engine.ErrRunNotFound, "nothing has been written")
}

// Calls with the nil result of a failed function return an error that names the function whose error was ignored.
func TestNilResultsOfFailedCalls(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	def := fixture.ChainOf(t, fixture.AddOne(), 1)
	require.NoError(t, (*runtime.Engine)(nil).Close())
	start := func(c *runtime.Client, def *flow.Definition[int, int]) error {
		_, err := runtime.Start(ctx, c, def, 1)
		_, attachErr := runtime.Attach(c.Run("chain", "run"), def)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, attachErr, strings.TrimPrefix(err.Error(), "start run: "))
		return err
	}
	require.ErrorContains(t, start(nil, def), "the client is nil")
	require.ErrorContains(t, start(b.Client, nil), "the definition of the flow is nil: look at the error of Build")
	require.ErrorContains(t, start(b.Client, &flow.Definition[int, int]{}), "the definition of the flow was not made by Build")
}

// Constructors with a nil engine return an error that names the engine.
func TestConstructorsWithoutEngine(t *testing.T) {
	t.Parallel()
	for text, e := range map[string]*runtime.Engine{
		"the engine is nil: look at the error of Open": nil, "the engine was not made by Open": new(runtime.Engine),
	} {
		client, err := runtime.NewClient(e)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, text)
		require.Nil(t, client)
		worker, err := runtime.NewWorker(e, runtime.WorkerConfig{Concurrency: -1})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, err, "Concurrency -1: must be 1 to 10000")
		require.Nil(t, worker)
		keeper, err := runtime.NewKeeper(e, runtime.KeeperConfig{ReconcileEvery: 1})
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, text)
		require.ErrorContains(t, err, "ReconcileEvery 1ns: must be at least 100ms")
		require.Nil(t, keeper)
		operator, err := admin.New(e)
		require.ErrorIs(t, err, admin.ErrInvalid)
		require.Nil(t, operator)
	}
}

// Accessors of a nil object, or of one made without its constructor, return zero values, and a nil context is an
// invalid argument.
func TestAccessorsOfNilAndZeroObjects(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	for _, w := range []*runtime.Worker{nil, {}} {
		require.Zero(t, w.Stats())
		require.Empty(t, w.Instance())
	}
	var ref *runtime.RunRef
	require.Empty(t, ref.ID()+ref.FlowName()+string(ref.FlowID()))
	var d *runtime.RunDescription
	require.Empty(t, d.Mermaid()+d.DOT()+d.Outline()+d.SVG(flow.Drawing{}))
	var none context.Context
	_, err := runtime.Open(none, "embedded:", runtime.OpenConfig{})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	b := enginetest.New(t, testserver.Embedded)
	def := fixture.ChainOf(t, fixture.AddOne(), 1)
	_, err = runtime.Start(none, b.Client, def, 1)
	require.ErrorIs(t, err, runtime.ErrInvalid)
	for _, scope := range []fabrictype.RerunScope{"", "bogus", "from "} {
		err := b.Client.Run(def.Name(), "run").Rerun(t.Context(), scope)
		require.ErrorIs(t, err, runtime.ErrInvalid)
		require.ErrorContains(t, err, fmt.Sprintf("scope %q: must be ", string(scope)))
	}
}

// Fields that contradict each other are a fault.
func TestFieldsThatExcludeEachOther(t *testing.T) {
	t.Parallel()
	_, err := runtime.Open(t.Context(), "embedded:?contract=15",
		runtime.OpenConfig{Backend: contract.Backend(contract.Config{}), ReplaceForeignLibrary: true})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.ErrorContains(t, err, "ReplaceForeignLibrary: contract mode leaves the library as it is")
}

// A run, client, worker, keeper or engine that an ignored error left nil, or that was not made by its function, returns
// that as an error from every call, and panics in none.
func TestCallsOfNilAndZeroObjects(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), enginetest.Patience)
	defer cancel()
	for _, x := range []struct {
		value any
		want  string
	}{
		{new(runtime.Run[int]), "the run was not made by Start, Attach or Client.Run"},
		{new(runtime.RunRef), "the run was not made by Start, Attach or Client.Run"},
		{(*runtime.RunRef)(nil), "the run was not made by Start, Attach or Client.Run"},
		{(*runtime.Client)(nil).Run("flow", "run"), "the client is nil"},
		{(*runtime.Client)(nil), "the client is nil"},
		{new(runtime.Client), "the client was not made by NewClient"},
		{(*runtime.Local)(nil).Client(), "the client is nil"},
		{new(runtime.Worker), "the worker was not made by NewWorker"},
		{(*runtime.Keeper)(nil), "the keeper was not made by NewKeeper"},
		{new(runtime.Keeper), "the keeper was not made by NewKeeper"},
		{new(runtime.Engine), "the engine was not made by Open"},
		{(*enginerpc.Conn)(nil), "the engine was not made by Connect"},
		{engine.ConnOf((*runtime.Engine)(nil).Internal()), "the engine was not made by Connect"},
	} {
		value := reflect.ValueOf(x.value)
		for i := range value.NumMethod() {
			name := fmt.Sprintf("%T.%s", x.value, value.Type().Method(i).Name)
			for _, err := range callWithNothing(ctx, value.Method(i)) {
				// Some calls check other arguments first, and Close has nothing to do.
				if err != nil && !strings.Contains(err.Error(), x.want) && !zeroArgument.MatchString(err.Error()) {
					t.Errorf("%s: got %v, want %q", name, err, x.want)
				}
				if err == nil && !strings.HasSuffix(name, ".Close") {
					t.Errorf("%s: no error", name)
				}
			}
		}
	}
	_, err := (*runtime.Run[int])(nil).Result(ctx)
	require.EqualError(t, err, "invalid argument: the run is nil: look at the error of Start or Attach")
	require.NoError(t, (*runtime.Local)(nil).Close())
}

// zeroArgument are errors by which a call refuses the zero values that it gets here.
var zeroArgument = regexp.MustCompile(`empty|bad name|no such|invalid token|malformed|unknown|must |is missing|nothing to|not valid|token|is no `)

// callWithNothing calls a method with zero values and returns its errors, of an iterator those that it yields. Methods
// of nil pointers that have no error to return may do as they like.
func callWithNothing(ctx context.Context, method reflect.Value) (errs []error) {
	kind := method.Type()
	hasError := false
	for i := range kind.NumOut() {
		out := kind.Out(i)
		hasError = hasError || out == reflect.TypeFor[error]() || out.Kind() == reflect.Func
	}
	if !hasError {
		return nil
	}
	arguments := []reflect.Value{}
	for i := range kind.NumIn() {
		switch {
		case kind.In(i) == reflect.TypeFor[context.Context]():
			arguments = append(arguments, reflect.ValueOf(ctx))
		case !kind.IsVariadic() || i < kind.NumIn()-1:
			arguments = append(arguments, reflect.Zero(kind.In(i)))
		}
	}
	note := func(v reflect.Value) {
		err, _ := v.Interface().(error)
		errs = append(errs, err)
	}
	for _, out := range method.Call(arguments) {
		switch {
		case out.Type() == reflect.TypeFor[error]():
			note(out)
		case out.Kind() == reflect.Func:
			yield := reflect.MakeFunc(out.Type().In(0), func(values []reflect.Value) []reflect.Value {
				note(values[len(values)-1])
				return []reflect.Value{reflect.ValueOf(false)}
			})
			out.Call([]reflect.Value{yield})
		}
	}
	return errs
}

// Texts with control characters are not valid names.
func TestNamesWithControlCharactersAreRefused(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	b := enginetest.New(t, testserver.Embedded)
	ctx := enginetest.Context(t)
	def := fixture.ChainOf(t, fixture.AddOne(), 1)
	for _, id := range []string{"a\nb", "a\x00", "\xff"} {
		_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID(id))
		require.ErrorIs(t, err, runtime.ErrInvalid, "%q", id)
	}
	_, err := runtime.Start(ctx, b.Client, def, 1, runtime.WithID("order 7, für Zoë"))
	require.NoError(t, err)
	for _, name := range []string{" ", "a b", "a\nb", "\xff", strings.Repeat("x", 129)} {
		_, err := runtime.NewWorker(b.Engine, runtime.WorkerConfig{Name: name})
		require.ErrorContains(t, err, "Name ", "%q", name)
	}
	for _, err := range b.Client.Run(def.Name(), "order 7, für Zoë").Watch(ctx, "yesterday") {
		require.ErrorIs(t, err, runtime.ErrCursor)
		require.ErrorContains(t, err, `"yesterday" is the id of no event`)
	}
	err = b.Client.Limit("l", "").Set(ctx, activity.LimitConfig{AtOnce: 1, KeyFrom: []string{"tenant"}})
	require.ErrorContains(t, err, `KeyFrom(tenant): must not be set here`)
	_, err = runtime.Open(context.Background(), "redis://127.0.0.1:1?tls=yes", runtime.OpenConfig{})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	require.ErrorContains(t, err, `unknown option "tls" of a server: there are contract, `)
}
