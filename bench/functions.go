package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// functionCalls is how often each function is called for the cost table.
const functionCalls = 500

// cost is the server's cost of one call of a function.
type cost struct {
	function string
	source   string // where the calls come from
	calls    int
	micros   float64 // time in the function, by INFO commandstats
	commands float64 // server commands that it ran
}

// costs calls functions one after the other on typical data and reads the server's counters.
type costs struct {
	ctx   context.Context
	core  *enginerpc.Conn
	table []cost
}

// measured runs call functionCalls times and enters its cost. The call must run one library function.
func measured[R any](c *costs, name string, call func(i int) (R, error)) error {
	before, err := commandTotals(c.ctx, c.core)
	if err != nil {
		return err
	}
	for i := range functionCalls {
		if _, err := call(i); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	after, err := commandTotals(c.ctx, c.core)
	if err != nil {
		return err
	}
	c.enter(cost{
		function: name, source: "bench", calls: functionCalls,
		micros: float64(after.fcallMicros-before.fcallMicros) / functionCalls,
		// The reading of the counters and the calls themselves are commands, too.
		commands: float64(after.commands-before.commands-1-functionCalls) / functionCalls,
	})
	return nil
}

// enter adds a row, or replaces the one of an earlier round that was slower.
func (c *costs) enter(row cost) {
	i := slices.IndexFunc(c.table, func(r cost) bool { return r.function == row.function && r.source == row.source })
	switch {
	case i < 0:
		c.table = append(c.table, row)
	case row.micros < c.table[i].micros:
		c.table[i] = row
	}
}

type totals struct{ fcallMicros, commands int64 }

func commandTotals(ctx context.Context, core *enginerpc.Conn) (totals, error) {
	client := core.Client()
	text, err := client.Do(ctx, client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		return totals{}, fmt.Errorf("INFO commandstats: %w", err)
	}
	var t totals
	for line := range strings.Lines(text) {
		name, fields, found := strings.Cut(strings.TrimSpace(line), ":")
		if !found {
			continue
		}
		for field := range strings.SplitSeq(fields, ",") {
			key, value, _ := strings.Cut(field, "=")
			n, _ := strconv.ParseInt(value, 10, 64)
			switch {
			case key == "calls":
				t.commands += n
			case key == "usec" && strings.HasPrefix(name, "cmdstat_fcall"):
				t.fcallMicros += n
			}
		}
	}
	return t, nil
}

// costTable measures the functions of the main path, the functions of the contract first, and then the calls of the
// recorded conversations in a directory, if one is given. Of several rounds, the best counts for each function.
func costTable(ctx context.Context, e *runtime.Engine, traces string, rounds int, out io.Writer) error {
	c := &costs{ctx: ctx, core: engine.ConnOf(e.Internal())}
	if e.Embedded() != nil {
		return fmt.Errorf("the cost of functions is counted by a server: give one with -engine")
	}
	if traces != "" {
		if err := c.checkEmpty(c.core.Keys().Prefix()); err != nil {
			return err
		}
	}
	for range rounds {
		if err := errors.Join(c.contract(), c.composite(), c.budgets(), c.groups()); err != nil {
			return err
		}
	}
	for i := 0; i < rounds && traces != ""; i++ {
		if err := c.replay(traces); err != nil {
			return err
		}
	}
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "function\tcalls of\tcalls\tserver µs\tcommands\treference µs\t")
	for _, row := range c.table {
		theirs := ""
		if micros, ok := reference[row.function]; ok {
			theirs = fmt.Sprint(micros)
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%.1f\t%.1f\t%s\t\n", row.function, row.source, row.calls, row.micros, row.commands,
			theirs)
	}
	return w.Flush()
}

const costLane = "cost"

// contract walks executions without a flow through their life.
func (c *costs) contract() error {
	partition := keyspace.Partition{Family: keyspace.FlowFamily, Index: 0}
	ids := make([]enginecore.ExecutionID, functionCalls)
	leases := make([]enginerpc.ClaimExecutionReply, functionCalls)
	for i := range ids {
		ids[i] = keyspace.NewExecutionID(partition)
	}
	grant := enginerpc.IssueClaimGrantCall{Grant: enginerpc.Grant{
		WorkerID: "w", WorkerInstanceID: "w-1", LaneID: costLane, GrantTTL: 5 * time.Second,
	}}
	steps := []func() error{
		func() error {
			name := enginerpc.FunctionName(enginerpc.CreateExecutionCall{})
			return measured(c, name, func(i int) (enginerpc.CreateExecutionReply, error) {
				return c.core.CreateExecution(c.ctx, enginerpc.CreateExecutionCall{
					ExecutionID: ids[i], Namespace: "bench", LaneID: costLane, ExecutionKind: "noop",
					CreatorIdentity: "bench",
					PolicyJSON:      []byte(`{"max_reclaim_count":5}`), InputPayload: make([]byte, 256),
					PartitionID: "0",
				})
			})
		},
		func() error {
			name := enginerpc.FunctionName(enginerpc.IssueClaimGrantCall{})
			return measured(c, name, func(i int) (enginerpc.IssueClaimGrantReply, error) {
				grant.ExecutionID = ids[i]
				return c.core.IssueClaimGrant(c.ctx, grant)
			})
		},
		func() error {
			name := enginerpc.FunctionName(enginerpc.ClaimExecutionCall{})
			return measured(c, name, func(i int) (enginerpc.ClaimExecutionReply, error) {
				reply, err := c.core.ClaimExecution(c.ctx, enginerpc.ClaimExecutionCall{
					ExecutionID: ids[i], WorkerID: "w", WorkerInstanceID: "w-1", LaneID: costLane,
					LeaseID: enginecore.LeaseID(uuid.NewString()), LeaseTTL: time.Minute, RenewBefore: 40 * time.Second,
					AttemptID: keyspace.AttemptID(uuid.NewString()),
				})
				leases[i] = reply
				return reply, err
			})
		},
		func() error {
			name := enginerpc.FunctionName(enginerpc.RenewLeaseCall{})
			return measured(c, name, func(i int) (enginerpc.RenewLeaseReply, error) {
				return c.core.RenewLease(c.ctx, enginerpc.RenewLeaseCall{
					ExecutionID: ids[i], AttemptIndex: leases[i].AttemptIndex, AttemptID: leases[i].AttemptID,
					LeaseID: leases[i].LeaseID, LeaseEpoch: leases[i].LeaseEpoch, LeaseTTL: time.Minute,
					LeaseHistoryGrace: 5 * time.Second,
				})
			})
		},
		func() error {
			name := enginerpc.FunctionName(enginerpc.CompleteExecutionCall{})
			return measured(c, name, func(i int) (enginerpc.CompleteExecutionReply, error) {
				return c.core.CompleteExecution(c.ctx, enginerpc.CompleteExecutionCall{
					ExecutionID: ids[i], AttemptIndex: leases[i].AttemptIndex, LaneID: costLane,
					WorkerInstanceID: "w-1",
					LeaseID:          leases[i].LeaseID, LeaseEpoch: leases[i].LeaseEpoch,
					AttemptID:     leases[i].AttemptID,
					ResultPayload: make([]byte, 256),
				})
			})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// composite walks chains of two nodes through their life.
func (c *costs) composite() error {
	partition := keyspace.Partition{Family: keyspace.FlowFamily, Index: 1}
	request := enginerpc.ClaimRequest{
		LaneID: costLane, WorkerID: "w", WorkerInstanceID: "w-1", Count: 1, LeaseTTL: time.Minute, Kinds: "\nnoop\n",
	}
	claimed := make([]enginerpc.ClaimedExecution, functionCalls)
	steps := []func() error{
		func() error { return c.submissions(partition) },
		func() error {
			return measured(c, "ffx_claim (1)", func(i int) (enginerpc.ClaimReply, error) {
				call := enginerpc.ClaimCall{Partition: partition, ClaimRequest: request}
				call.ClaimID = uuid.NewString()
				reply, err := c.core.Claim(c.ctx, call)
				if err == nil && len(reply.Executions) != 1 {
					return reply, fmt.Errorf("%d executions", len(reply.Executions))
				}
				claimed[i] = reply.Executions[0]
				return reply, err
			})
		},
		func() error {
			return measured(c, "ffx_renew (1)", func(i int) (enginerpc.RenewReply, error) {
				return c.core.Renew(c.ctx, enginerpc.RenewCall{
					Partition: partition, WorkerInstanceID: "w-1", LeaseTTL: time.Minute, Leases: []enginerpc.RenewLease{{
						ExecutionID: claimed[i].ExecutionID, LeaseID: claimed[i].LeaseID,
						LeaseEpoch: claimed[i].LeaseEpoch,
						AttemptID:  claimed[i].AttemptID,
					}},
				})
			})
		},
		func() error {
			return measured(c, "ffx_complete (resolves 1, claims 1)", func(i int) (enginerpc.CompleteReply, error) {
				reply, err := c.core.Complete(c.ctx, c.completion(partition, claimed[i], request))
				if err == nil && len(reply.Executions) != 1 {
					return reply, fmt.Errorf("%d executions handed on", len(reply.Executions))
				}
				claimed[i] = reply.Executions[0]
				return reply, err
			})
		},
		func() error {
			none := request
			none.Count = 0
			return measured(c, "ffx_complete (ends the flow)", func(i int) (enginerpc.CompleteReply, error) {
				return c.core.Complete(c.ctx, c.completion(partition, claimed[i], none))
			})
		},
		func() error {
			return measured(c, "ffx_tick (nothing due)", func(int) (enginerpc.TickReply, error) {
				return c.core.Tick(c.ctx, enginerpc.TickCall{Partition: partition, Limit: 128})
			})
		},
		func() error {
			return measured(c, "ffx_find_node (by name)", func(i int) (enginerpc.FindNodeReply, error) {
				return c.core.FindNode(c.ctx, enginerpc.FindNodeCall{
					Partition: partition, FlowID: claimed[i].FlowID, Node: "second",
				})
			})
		},
		func() error {
			return measured(c, "ffx_rerun (begins)", func(i int) (enginerpc.RerunReply, error) {
				return c.core.Rerun(c.ctx, c.rerun(partition, claimed[i]))
			})
		},
		func() error {
			return measured(c, "ffx_rerun (resets 1 of 2 nodes)", func(i int) (enginerpc.RerunReply, error) {
				return c.core.Rerun(c.ctx, c.rerun(partition, claimed[i]))
			})
		},
		func() error {
			return measured(c, "ffx_rerun (lets 1 go)", func(i int) (enginerpc.RerunReply, error) {
				return c.core.Rerun(c.ctx, c.rerun(partition, claimed[i]))
			})
		},
		func() error {
			return measured(c, "ffx_cancel_node (waits)", func(i int) (enginerpc.CancelNodeReply, error) {
				return c.core.CancelNode(c.ctx, enginerpc.CancelNodeCall{
					Partition: partition, ExecutionID: claimed[i].ExecutionID, Reason: "bench", Actor: "bench",
				})
			})
		},
		func() error {
			return measured(c, "ffx_purge_flow (2 nodes)", func(i int) (enginerpc.PurgeFlowReply, error) {
				return c.core.PurgeFlow(c.ctx, enginerpc.PurgeFlowCall{Partition: partition, FlowID: claimed[i].FlowID})
			})
		},
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (c *costs) rerun(p keyspace.Partition, node enginerpc.ClaimedExecution) enginerpc.RerunCall {
	return enginerpc.RerunCall{
		Partition: p, FlowID: node.FlowID, RerunID: "bench", Mode: "node", Actor: "bench", Begin: true,
		Nodes: []enginecore.ExecutionID{node.ExecutionID},
	}
}

func (c *costs) completion(
	p keyspace.Partition, claimed enginerpc.ClaimedExecution, next enginerpc.ClaimRequest,
) enginerpc.CompleteCall {
	next.ClaimID = uuid.NewString()
	return enginerpc.CompleteCall{
		Partition: p, ExecutionID: claimed.ExecutionID, LeaseID: claimed.LeaseID, LeaseEpoch: claimed.LeaseEpoch,
		AttemptID: claimed.AttemptID, Result: make([]byte, 256), ClaimRequest: next,
	}
}
