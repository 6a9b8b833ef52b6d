package flowfabric_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/flow"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func serverCPU(pid string) float64 {
	b, _ := os.ReadFile("/proc/" + pid + "/stat")
	f := strings.Fields(string(b[strings.LastIndex(string(b), ")")+2:]))
	u, _ := strconv.ParseFloat(f[11], 64)
	s, _ := strconv.ParseFloat(f[12], 64)
	return (u + s) / 100
}

func TestSpeed(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	defer cancel()
	nodes, _ := strconv.Atoi(os.Getenv("NODES"))
	if nodes == 0 {
		nodes = 10
	}
	srv := testserver.Start(t, testserver.Options{Kind: testserver.Valkey})
	e, err := runtime.Open(ctx, "valkey://"+srv.Addr(), runtime.OpenConfig{AllowVolatile: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	conn := enginerpc.ConnOf(e)
	info := func(section string) map[string]string {
		text, _ := conn.Client().Do(ctx, conn.Client().B().Arbitrary("INFO", section).Build()).ToString()
		m := map[string]string{}
		for _, l := range strings.Split(text, "\r\n") {
			if k, v, ok := strings.Cut(l, ":"); ok {
				m[k] = v
			}
		}
		return m
	}
	pid := info("server")["process_id"]
	conn.Client().Do(ctx, conn.Client().B().Arbitrary("CONFIG", "SET", "loglevel", "warning").Build())
	defer func() {
		for fd := range 30 {
			name := fmt.Sprintf("/proc/%s/fd/%d", pid, fd)
			if to, _ := os.Readlink(name); strings.Contains(to, "log") || strings.Contains(to, "output") {
				text, _ := os.ReadFile(name)
				for _, l := range strings.Split(string(text), "\n") {
					if strings.Contains(l, "PROF") {
						t.Log(l)
					}
				}
				break
			}
		}
	}()
	add := activity.New("add", func(_ context.Context, n int) (int, error) { return n + 1, nil })
	w, err := runtime.NewWorker(e, runtime.WorkerConfig{Concurrency: 16})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Register(add); err != nil {
		t.Fatal(err)
	}
	go w.Run(ctx)
	c, _ := runtime.NewClient(e)
	b := flow.New[int, int]("chain")
	var x flow.Ref[int] = flow.Node(b, "n1", add, b.Input())
	for i := 2; i <= nodes; i++ {
		x = flow.Node(b, fmt.Sprintf("n%d", i), add, x)
	}
	flow.Return(b, x)
	def, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	one := func() {
		run, err := runtime.Start(ctx, c, def, 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := run.Result(ctx); err != nil {
			t.Fatal(err)
		}
	}
	one()
	conn.Client().Do(ctx, conn.Client().B().Arbitrary("CONFIG", "RESETSTAT").Build())
	m0, _ := strconv.ParseFloat(info("memory")["used_memory"], 64)
	cpu0, start := serverCPU(pid), time.Now()
	var runs atomic.Int64
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for time.Since(start) < 5*time.Second {
				one()
				runs.Add(1)
			}
		})
	}
	wg.Wait()
	took := time.Since(start).Seconds()
	cpu := serverCPU(pid) - cpu0
	m1, _ := strconv.ParseFloat(info("memory")["used_memory"], 64)
	n := float64(runs.Load()) * float64(nodes)
	t.Logf("%.0f runs/s, %.0f nodes/s, server CPU %.1f µs/node, memory %.0f B/node", float64(runs.Load())/took, n/took, cpu*1e6/n, (m1-m0)/n)
	total := 0.0
	for k, v := range info("commandstats") {
		if !strings.HasPrefix(k, "cmdstat_") {
			continue
		}
		var calls, usec float64
		fmt.Sscanf(v, "calls=%f,usec=%f", &calls, &usec)
		total += calls
		if calls/n > 0.02 {
			t.Logf("  %-28s %.2f/node  %.2f µs/call %.2f µs/node", k, calls/n, usec/calls, usec/n)
		}
	}
	t.Logf("commands per node %.1f", total/n)
}
