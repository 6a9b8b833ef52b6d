package upgradetest

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var (
	buildLine    = regexp.MustCompile(`call\.build = '\d+-[0-9a-f]+'`)
	protocolLine = regexp.MustCompile(`call\.protocol = \d+\ncall\.min_protocol = \d+`)
	composite    = regexp.MustCompile(`'ffx\d*_(\w+)'(, function\(|, flags)`)
)

// library is ours as a later version would have it: of another protocol, under whose names it serves its programs.
func library(t *testing.T, build string, protocol, minProtocol int) string {
	t.Helper()
	source := buildLine.ReplaceAllString(lualib.Source(), "call.build = '"+build+"'")
	source = protocolLine.ReplaceAllString(source, fmt.Sprintf("call.protocol = %d\ncall.min_protocol = %d", protocol, minProtocol))
	source = composite.ReplaceAllStringFunc(source, func(found string) string {
		parts := composite.FindStringSubmatch(found)
		if parts[1] == "version" || minProtocol <= lualib.Protocol {
			return found
		}
		return fmt.Sprintf("'ffx%d_%s'%s", protocol, parts[1], parts[2])
	})
	require.Contains(t, source, build)
	return source
}

func load(t *testing.T, e *runtime.Engine, source string) {
	t.Helper()
	client := engine.ConnOf(e.Internal()).Client()
	require.NoError(t, client.Do(t.Context(), client.B().FunctionLoad().Replace().FunctionCode(source).Build()).Error())
}

// ownEngine opens an engine whose library a test may replace.
func ownEngine(t *testing.T, kind testserver.Kind) *enginetest.Bench {
	t.Helper()
	url := "embedded:"
	if kind != testserver.Embedded {
		url = testserver.Start(t, testserver.Options{Kind: kind}).URL()
	}
	return enginetest.Open(t, kind, url, enginetest.NewPrefix())
}

func onOwnEngines(t *testing.T, test func(t *testing.T, b *enginetest.Bench)) {
	t.Helper()
	testserver.SideBySide(t, testserver.Kinds(t), func(t *testing.T, kind testserver.Kind) {
		if kind == testserver.OnCluster {
			t.Skip("the cluster is shared")
		}
		test(t, ownEngine(t, kind))
	})
}

// running runs a function whose end is checked by its error, and does not fail the test.
func running(t *testing.T, run func(context.Context) error) <-chan error {
	ctx, cancel := context.WithCancel(context.Background())
	ended, done := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(done)
		ended <- run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	return ended
}

func endsOutdated(t *testing.T, what string, ended <-chan error) {
	t.Helper()
	select {
	case err := <-ended:
		require.ErrorIs(t, err, enginecore.ErrIncompatibleLibrary, what)
		for _, want := range []string{"build 999999-abc", "protocol 9 and later", fmt.Sprintf("speaks protocol %d", lualib.Protocol), lualib.Build()} {
			assert.ErrorContains(t, err, want, what)
		}
	case <-time.After(enginetest.Patience):
		t.Errorf("%s continues", what)
	}
}

// During a run, the library is replaced by one that serves no programs of this protocol. All calls, workers and keepers
// end with an error that names the protocol, and nothing retries. Once the server serves the protocol again, the run
// continues.
func TestProtocolEndsDuringRun(t *testing.T) {
	t.Parallel()
	onOwnEngines(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		begun, ended := make(chan struct{}, 100), make(chan error, 100) // a slow machine may lose the lease before
		hold := activity.New("hold", func(ctx context.Context, n int) (int, error) {
			begun <- struct{}{}
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return 0, context.Cause(ctx)
		})
		def := holding(t, hold)
		w := enginetest.NewWorker(t, b.Engine, runtime.WorkerConfig{
			Lease: time.Second, Grace: enginetest.Patience, NoKeeper: true,
		})
		require.NoError(t, w.Register(hold))
		worker := running(t, w.Run)
		keeper := running(t, enginetest.NewKeeper(t, b.Engine, runtime.KeeperConfig{}).Run)
		run, err := runtime.Start(ctx, b.Client, def, 7, runtime.WithID("r"))
		require.NoError(t, err)
		result := running(t, func(ctx context.Context) error {
			_, err := run.Result(ctx)
			return err
		})
		<-begun

		load(t, b.Engine, library(t, "999999-abc", 9, 9))
		endsOutdated(t, "worker", worker)
		endsOutdated(t, "keeper", keeper)
		endsOutdated(t, "waiting result", result)
		require.ErrorIs(t, <-ended, runtime.ErrLeaseLost)
		_, err = runtime.Start(ctx, b.Client, def, 7, runtime.WithID("s"))
		require.ErrorIs(t, err, enginecore.ErrIncompatibleLibrary)
		require.ErrorIs(t, engine.ConnOf(b.Engine.Internal()).Check(ctx), enginecore.ErrIncompatibleLibrary)
		require.Equal(t, 1, strings.Count(b.Log(), "event=library.incompatible"))
		if b.Kind == testserver.Embedded {
			return
		}
		_, err = runtime.Open(ctx, b.URL, runtime.OpenConfig{Prefix: b.Prefix})
		require.ErrorIs(t, err, enginecore.ErrIncompatibleLibrary)

		load(t, b.Engine, lualib.Source())
		again := enginetest.Open(t, b.Kind, b.URL, b.Prefix)
		again.Worker(t, []activity.Handler{activity.New("hold", func(_ context.Context, n int) (int, error) { return n + 1, nil })})
		again.Keeper(t)
		same, err := runtime.Attach(again.Client.Run(def.Name(), "r"), def)
		require.NoError(t, err)
		got, err := same.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 8, got)
		again.Settle(t)
	})
}

func holding(t *testing.T, hold *activity.Activity[int, int]) *flow.Definition[int, int] {
	t.Helper()
	f := flow.New[int, int]("holding")
	flow.Return(f, flow.Node(f, "hold", hold, f.Input()))
	def, err := f.Build()
	require.NoError(t, err)
	return def
}

// An embedded engine has its own library, so the protocol must be recorded in the data.
func TestDirectoryOfALaterProtocol(t *testing.T) {
	t.Parallel()
	ctx := enginetest.Context(t)
	url := "embedded:" + t.TempDir()
	open := func() (*runtime.Engine, error) {
		return runtime.Open(ctx, url, runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
	}
	e, err := open()
	require.NoError(t, err)
	client := engine.ConnOf(e.Internal()).Client()
	require.NoError(t, client.Do(ctx, client.B().Set().Key(engine.ConnOf(e.Internal()).Keys().FfxProtocol()).Value("9").Build()).Error())
	require.NoError(t, e.Close())
	_, err = open()
	require.ErrorIs(t, err, enginecore.ErrIncompatibleLibrary)
	require.ErrorContains(t, err, "protocol 9 and later")
	require.ErrorContains(t, err, "build "+lualib.Build())
}

// A library of a later build that still serves this protocol is left in place, and a program that has met it keeps
// working.
func TestLaterLibraryOfSameProtocol(t *testing.T) {
	t.Parallel()
	onOwnEngines(t, func(t *testing.T, b *enginetest.Bench) {
		ctx := enginetest.Context(t)
		double := activity.New("hold", func(_ context.Context, n int) (int, error) { return 2 * n, nil })
		def := holding(t, double)
		b.Worker(t, []activity.Handler{double})
		b.Keeper(t)
		load(t, b.Engine, library(t, "999999-abc", lualib.Protocol+1, lualib.MinProtocol))
		run, err := runtime.Start(ctx, b.Client, def, 7, runtime.WithID("r"))
		require.NoError(t, err)
		got, err := run.Result(ctx)
		require.NoError(t, err)
		require.Equal(t, 14, got)
		require.NoError(t, engine.ConnOf(b.Engine.Internal()).Check(ctx))
		version, err := engine.ConnOf(b.Engine.Internal()).Version(ctx, enginerpc.VersionCall{})
		require.NoError(t, err)
		require.Equal(t, "999999-abc", version.Build)
	})
}
