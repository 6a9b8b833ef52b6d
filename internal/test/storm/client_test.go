package storm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// customer starts runs and interferes with them.
type customer struct {
	client *runtime.Client
	diary  *diary
	activities
	name  string // no two processes have the same
	pace  time.Duration
	open  atomic.Int64
	runs  []*runtime.Run[product]
	tasks sync.WaitGroup
}

// stormPace is the longest pause between two things that a customer does.
const stormPace = 20 * time.Millisecond

// customerRuns is how many runs of one customer are open at a time.
const customerRuns = 6

// work does one thing after the other until the context ends.
func (c *customer) work(ctx context.Context, r *rand.Rand) {
	defer c.tasks.Wait()
	for i := 0; ctx.Err() == nil; i++ {
		choice, seed, pause := r.IntN(100), r.Uint64(), time.Duration(r.Int64N(int64(c.pace)))
		if choice < 5 {
			c.startKeyed(ctx, seed)
		} else if choice < 8 {
			c.mail(ctx)
		} else if choice < 45 && c.open.Load() < customerRuns {
			c.start(ctx, fmt.Sprintf("%s-%d", c.name, i), seed)
		} else if len(c.runs) > 0 {
			c.interfere(ctx, choice, c.runs[max(0, len(c.runs)-1-int(seed%8))], rand.New(rand.NewPCG(seed, 8)))
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// start starts a run, again and again until the engine has acknowledged it.
func (c *customer) start(ctx context.Context, id string, seed uint64) {
	def, err := newRandomDAG(seed).define(c.activities)
	if err != nil {
		panic(err)
	}
	c.diary.note(entry{What: starting, Run: id, Seed: seed})
	for ctx.Err() == nil {
		run, err := runtime.Start(ctx, c.client, def, 1, runtime.WithID(id))
		if err != nil {
			continue
		}
		c.diary.note(entry{What: started, Run: id})
		c.runs = append(c.runs, run)
		c.open.Add(1)
		c.tasks.Go(func() {
			defer c.open.Add(-1)
			c.await(ctx, run)
		})
		return
	}
}

// await waits until the run is over, or for a while: one that waits for people must not keep the customer from others.
func (c *customer) await(ctx context.Context, run *runtime.Run[product]) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		_, err := run.Result(ctx)
		var over *runtime.RunError
		if err == nil || errors.As(err, &over) || errors.Is(err, runtime.ErrNoResult) {
			return
		}
	}
}

// interfere applies a random operation to a run. The checker verifies the effect later, whatever the reply.
func (c *customer) interfere(ctx context.Context, choice int, run *runtime.Run[product], r *rand.Rand) {
	switch {
	case choice < 75:
		answer(ctx, c.client, c.diary, run, r, 2)
	case choice < 80:
		c.diary.note(entry{What: meddling, Run: run.ID()})
		_ = run.Cancel(ctx, "the storm says so")
	case choice < 86:
		c.diary.note(entry{What: meddling, Run: run.ID()})
		_ = run.Rerun(ctx, []fabrictype.RerunScope{fabrictype.RerunFailed, fabrictype.RerunAll, fabrictype.RerunFrom("n00")}[r.IntN(3)])
	case choice < 91:
		_ = run.Pause(ctx, "the storm says so")
		_ = run.Resume(ctx)
	case choice < 94:
		_ = c.client.Lane("other").Pause(ctx, "the storm says so")
		_ = c.client.Lane("other").Resume(ctx)
	case choice < 96:
		_ = c.client.Activity("storm.step").Pause(ctx, "the storm says so")
		_ = c.client.Activity("storm.step").Resume(ctx)
	case choice < 97:
		_, _ = run.Fork(ctx, runtime.ForkOptions{From: []string{"n00"}}, runtime.WithID(forkPrefix+uuid.NewString()))
	case choice < 98:
		_, _ = c.client.StartBulkJob(ctx, runtime.RunQuery{Flow: flowName, States: []fabrictype.RunState{fabrictype.RunRunning}},
			fabrictype.BulkAction{Kind: "priority", Priority: r.IntN(9000)}, runtime.BulkOptions{Rate: 50})
	default:
		look(ctx, run)
	}
}

// answer sends a product to about one in n waits of a run.
func answer(ctx context.Context, client *runtime.Client, d *diary, run *runtime.Run[product], r *rand.Rand, oneOf int) {
	open, err := run.Waitpoints(ctx)
	if err != nil {
		return
	}
	for _, w := range open {
		if r.IntN(oneOf) > 0 {
			continue
		}
		p := product{Node: w.Node, Nonce: uuid.NewString()}
		d.note(entry{What: signal, Run: run.ID(), Node: w.Node, Nonce: p.Nonce})
		_, _ = client.Signal(ctx, w.Token, runtime.Signal{Name: "go", Payload: p, IdempotencyKey: p.Nonce})
	}
}
