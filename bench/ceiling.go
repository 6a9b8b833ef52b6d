package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// ceilingTime is how long each ceiling is measured.
const ceilingTime = 500 * time.Millisecond

// ceilings are the rates that this client reaches with this engine without our library: no figure can be higher on this
// machine.
type ceilings struct {
	// Calls of a function that does nothing.
	FunctionCalls float64 `json:"fcalls_per_second"`
	// Tasks through a bare list: one LPUSH and one RPOP each.
	ListTasks float64 `json:"list_tasks_per_second"`
}

func measureCeilings(ctx context.Context, e *runtime.Engine, goroutines int) (ceilings, error) {
	calls, err := rate(goroutines, func() error {
		_, err := engine.ConnOf(e.Internal()).Version(ctx, enginerpc.VersionCall{})
		return err
	})
	if err != nil {
		return ceilings{}, err
	}
	client := engine.ConnOf(e.Internal()).Client()
	list, payload := engine.ConnOf(e.Internal()).Keys().Prefix()+":ceiling", string(make([]byte, 256))
	tasks, err := rate(goroutines, func() error {
		if err := client.Do(ctx, client.B().Lpush().Key(list).Element(payload).Build()).Error(); err != nil {
			return err
		}
		return client.Do(ctx, client.B().Rpop().Key(list).Build()).Error()
	})
	return ceilings{FunctionCalls: calls, ListTasks: tasks}, err
}

// rate is how often several goroutines get through a call per second.
func rate(goroutines int, call func() error) (float64, error) {
	var done atomic.Int64
	var failed atomic.Pointer[error]
	var group sync.WaitGroup
	begun := time.Now()
	for range goroutines {
		group.Go(func() {
			for time.Since(begun) < ceilingTime {
				if err := call(); err != nil {
					failed.Store(&err)
					return
				}
				done.Add(1)
			}
		})
	}
	group.Wait()
	if err := failed.Load(); err != nil {
		return 0, *err
	}
	return float64(done.Load()) / time.Since(begun).Seconds(), nil
}
