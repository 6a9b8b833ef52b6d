package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// outsideKind is the activity of executions that another program creates.
const outsideKind = "bench.outside"

// outsideRetry is a policy with one retry after retryDelay.
var outsideRetry = fmt.Appendf(nil, `{"retry_policy":{"max_retries":1,"backoff":{"type":"fixed","delay_ms":%d}}}`,
	retryDelay.Milliseconds())

// outsideStart is the start of an attempt.
type outsideStart struct {
	id string
	at time.Time
}

// outside is a program that calls the contract's functions only, while an idle worker of this process runs.
type outside struct {
	core    *enginerpc.Conn
	started chan outsideStart
	next    int // index of the partition of the next execution
}

// handler runs executions that fail with their first attempt if the input is true.
func (o *outside) handler() activity.Handler {
	return activity.New(outsideKind, func(ctx context.Context, fail bool) (int, error) {
		info, _ := activity.Info(ctx)
		o.started <- outsideStart{info.ExecutionID, time.Now()}
		if fail && info.Attempt == 1 {
			return 0, errors.New("first attempt")
		}
		return 0, nil
	})
}

// create creates an execution in a partition.
func (o *outside) create(
	ctx context.Context, p keyspace.Partition, change ...func(*enginerpc.CreateExecutionCall),
) (enginecore.ExecutionID, error) {
	call := enginerpc.CreateExecutionCall{
		ExecutionID: keyspace.NewExecutionID(p), Namespace: "default", LaneID: "default", ExecutionKind: outsideKind,
		CreatorIdentity: "bench", InputPayload: []byte("false"),
	}
	for _, c := range change {
		c(&call)
	}
	_, err := o.core.CreateExecution(ctx, call)
	return call.ExecutionID, err
}

// partition returns another partition each time.
func (o *outside) partition() keyspace.Partition {
	list := o.core.Partitioning().FlowPartitions()
	o.next++
	return list[o.next%len(list)]
}

// start waits for the start of an execution and returns when it was.
func (o *outside) start(ctx context.Context, id enginecore.ExecutionID) (time.Time, error) {
	for {
		select {
		case s := <-o.started:
			if s.id == string(id) {
				return s.at, nil
			}
		case <-ctx.Done():
			return time.Time{}, ctx.Err()
		}
	}
}

// created measures from the call that creates an execution to its start.
func (o *outside) created(ctx context.Context) (time.Duration, error) {
	begun := time.Now()
	id, err := o.create(ctx, o.partition())
	if err != nil {
		return 0, err
	}
	at, err := o.start(ctx, id)
	return at.Sub(begun), err
}

// retried measures how long after its delay an execution is retried.
func (o *outside) retried(ctx context.Context) (time.Duration, error) {
	id, err := o.create(ctx, o.partition(), func(c *enginerpc.CreateExecutionCall) {
		c.InputPayload, c.PolicyJSON = []byte("true"), outsideRetry
	})
	if err != nil {
		return 0, err
	}
	first, err := o.start(ctx, id)
	if err != nil {
		return 0, err
	}
	second, err := o.start(ctx, id)
	return second.Sub(first) - retryDelay, err
}

// ended creates an execution and cancels it before it starts.
func (o *outside) ended(ctx context.Context, p keyspace.Partition) (enginecore.ExecutionID, error) {
	id, err := o.create(ctx, p, delayed)
	if err != nil {
		return id, err
	}
	_, err = o.core.CancelExecution(ctx, enginerpc.CancelExecutionCall{
		LaneID: "default", ExecutionID: id, Reason: "bench", Source: "operator_override",
	})
	return id, err
}

// delayed delays an execution until it is promoted.
func delayed(c *enginerpc.CreateExecutionCall) { c.DelayUntil = time.Now().Add(time.Hour) }

func (o *outside) replay(ctx context.Context, id enginecore.ExecutionID) error {
	_, err := o.core.ReplayExecution(ctx, enginerpc.ReplayExecutionCall{LaneID: "default", ExecutionID: id})
	return err
}

// replayed measures from the call that replays an ended execution to its start.
func (o *outside) replayed(ctx context.Context) (time.Duration, error) {
	id, err := o.ended(ctx, o.partition())
	if err != nil {
		return 0, err
	}
	begun := time.Now()
	if err := o.replay(ctx, id); err != nil {
		return 0, err
	}
	at, err := o.start(ctx, id)
	return at.Sub(begun), err
}

// followed measures the time from the start of an execution, which ends at once, to the start of the execution that
// depends on it.
func (o *outside) followed(ctx context.Context) (time.Duration, error) {
	p := o.partition()
	up, err := o.create(ctx, p, delayed)
	if err != nil {
		return 0, err
	}
	down, err := o.ended(ctx, p)
	if err != nil {
		return 0, err
	}
	if err := o.link(ctx, p, up, down); err != nil {
		return 0, err
	}
	// From here on, it waits for its edge.
	if err := o.replay(ctx, down); err != nil {
		return 0, err
	}
	if _, err = o.core.PromoteDelayed(ctx, enginerpc.PromoteDelayedCall{
		LaneID: "default", ExecutionID: up, Now: time.Now().Add(2 * time.Hour),
	}); err != nil {
		return 0, err
	}
	first, err := o.start(ctx, up)
	if err != nil {
		return 0, err
	}
	second, err := o.start(ctx, down)
	return second.Sub(first), err
}

// link makes one execution depend on another, in a flow of the two.
func (o *outside) link(ctx context.Context, p keyspace.Partition, up, down enginecore.ExecutionID) error {
	flow, edge := enginecore.FlowID(uuid.NewString()), enginecore.EdgeID(uuid.NewString())
	if _, err := o.core.CreateFlow(ctx, enginerpc.CreateFlowCall{
		Partition: p, FlowID: flow, FlowKind: "bench", Namespace: "default",
	}); err != nil {
		return err
	}
	for _, id := range []enginecore.ExecutionID{up, down} {
		_, err := o.core.AddExecutionToFlow(ctx, enginerpc.AddExecutionToFlowCall{FlowID: flow, ExecutionID: id})
		if err != nil {
			return err
		}
	}
	if _, err := o.core.StageDependencyEdge(ctx, enginerpc.StageDependencyEdgeCall{
		FlowID: flow, EdgeID: edge, UpstreamExecutionID: up, DownstreamExecutionID: down, ExpectedGraphRevision: 2,
	}); err != nil {
		return err
	}
	_, err := o.core.ApplyDependencyToChild(ctx, enginerpc.ApplyDependencyToChildCall{
		FlowID: flow, EdgeID: edge, UpstreamExecutionID: up, DownstreamExecutionID: down, LaneID: "default",
		GraphRevision: 3,
	})
	return err
}

// outsideTimes is how often each way to start is measured.
const outsideTimes = 100

// rawIdle measures how soon an idle worker starts executions that another program creates call by call, outside of
// runs.
func rawIdle(ctx context.Context, s settings) (figures []figure, err error) {
	o := &outside{started: make(chan outsideStart, 4)}
	l, err := local(ctx, s, o.handler())
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	o.core = engine.ConnOf(l.Engine().Internal())
	times := s.atMost(outsideTimes)
	for _, x := range []struct {
		name string
		once func(context.Context) (time.Duration, error)
	}{{"create", o.created}, {"replay", o.replayed}, {"edge", o.followed}, {"late retry", o.retried}} {
		h := newHistogram()
		for i := range s.warmUp() + times {
			took, err := x.once(ctx)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", x.name, err)
			}
			if i >= s.warmUp() {
				if err := h.RecordValue(max(1, took.Microseconds())); err != nil {
					return nil, err
				}
			}
		}
		for _, f := range quantiles(h) {
			figures = append(figures, figure{x.name + " " + f.name, f.unit, f.value})
		}
	}
	return figures, nil
}
