package propertytest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/contract"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/fixture"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// childVariable makes this test binary play another process, which works at the engine that the value names.
const (
	childVariable       = "FLOWFABRIC_TEST_CHILD"
	childPrefixVariable = "FLOWFABRIC_TEST_PREFIX"
	childStartVariable  = "FLOWFABRIC_TEST_START" // run id that the child is to start itself
)

// killedLease is the lease of workers that are killed. A program with the engine inside has a lease that does not run
// out within a test: the next program that opens the directory must not wait for it.
const killedLease = time.Second

func leaseOfChild(url string) time.Duration {
	if strings.HasPrefix(url, "embedded:") {
		return enginetest.LongLease
	}
	return killedLease
}

// holdForEver never returns, in the child; in the test it does.
func holdForEver(do func(n int) (int, error)) *activity.Activity[int, int] {
	return activity.New("hold", func(_ context.Context, n int) (int, error) { return do(n) }, activity.Retry(activity.RetryPolicy{Attempts: 1}))
}

func killFlow(a *activity.Activity[int, int], sum *activity.Activity[[]int, int]) (*flow.Definition[int, int], error) {
	f := flow.New[int, int]("killed")
	refs := make([]flow.Ref[int], 8)
	for i := range refs {
		refs[i] = flow.Node(f, fmt.Sprintf("n%d", i), a, f.Input())
	}
	flow.Return(f, flow.Node(f, "sum", sum, flow.List(refs...)))
	return f.Build()
}

// runChild is the other process: it claims all it can, reports each start on standard output, and finishes nothing.
func runChild() int {
	ctx := context.Background()
	e, err := runtime.Open(ctx, os.Getenv(childVariable), runtime.OpenConfig{
		Prefix: os.Getenv(childPrefixVariable), Partitions: 4, Logger: slog.New(slog.DiscardHandler),
		Backend: contract.Backend(contract.Config{}),
	})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	a := holdForEver(func(n int) (int, error) {
		fmt.Println("begun")
		select {}
	})
	sum := fixture.Adder()
	if id := os.Getenv(childStartVariable); id != "" {
		def, err := killFlow(a, sum)
		client, clientErr := runtime.NewClient(e)
		if err = errors.Join(err, clientErr); err == nil {
			_, err = runtime.Start(ctx, client, def, 1, runtime.WithID(id))
		}
		if err != nil {
			fmt.Println(err)
			return 1
		}
	}
	w, err := runtime.NewWorker(e, runtime.WorkerConfig{Lease: leaseOfChild(os.Getenv(childVariable)), NoKeeper: true})
	if err == nil {
		err = w.Register(a, sum)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println(w.Run(ctx))
	return 1
}

// child is a process that can be killed.
type child struct {
	cmd   *exec.Cmd
	lines *bufio.Scanner
}

func startChild(t *testing.T, url, prefix, start string) *child {
	t.Helper()
	binary, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.Command(binary)
	cmd.Env = append(os.Environ(), childVariable+"="+url, childPrefixVariable+"="+prefix, childStartVariable+"="+start)
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	c := &child{cmd: cmd, lines: bufio.NewScanner(out)}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return c
}

// await waits for n starts.
func (c *child) await(t *testing.T, n int) {
	t.Helper()
	for range n {
		require.True(t, c.lines.Scan(), "the child has ended")
		require.Equal(t, "begun", c.lines.Text())
	}
}

func (c *child) kill(t *testing.T) {
	t.Helper()
	require.NoError(t, c.cmd.Process.Kill())
	_ = c.cmd.Wait()
}
