package main

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/test/conformance"
)

// recorded has the cost of one function's calls in the recorded conversations.
type recorded struct {
	micros   []int64 // of each call
	commands int64   // of all calls
}

// checkEmpty refuses a database that holds data of other programs: a replay empties it.
func (c *costs) checkEmpty(prefix string) error {
	client := c.core.Client()
	keys, err := client.Do(c.ctx, client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		return fmt.Errorf("KEYS: %w", err)
	}
	for _, key := range keys {
		if !strings.HasPrefix(key, prefix+":") {
			return fmt.Errorf("-traces needs a database of its own, which it empties: this one holds %q", key)
		}
	}
	return nil
}

// replay plays the recorded conversations of a directory and enters the cost of the calls that were not refused, per
// function: the time of the median call, because most functions are called too seldom for an average to outweigh other
// load of the machine. It leaves the database empty.
func (c *costs) replay(dir string) error {
	traces, err := conformance.LoadDir(dir)
	if err != nil {
		return err
	}
	deviations, err := conformance.LoadDeviations(filepath.Join(dir, "deviations.json"))
	if err != nil {
		return err
	}
	sums := make(map[string]*recorded)
	var before totals
	options := conformance.Options{
		KeepGoing: true, Deviations: deviations,
		Before: func(ctx context.Context) error {
			before, err = commandTotals(ctx, c.core)
			return err
		},
		After: func(ctx context.Context, function string, reply any) error {
			after, err := commandTotals(ctx, c.core)
			if err != nil || isRefusal(reply) {
				return err
			}
			sum := sums[function]
			if sum == nil {
				sum = new(recorded)
				sums[function] = sum
			}
			sum.micros = append(sum.micros, after.fcallMicros-before.fcallMicros)
			sum.commands += after.commands - before.commands - 2 // the call itself and the reading of the counters
			return nil
		},
	}
	for _, trace := range traces {
		if _, err := conformance.Replay(c.ctx, c.core.Client(), trace, options); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		sum := sums[name]
		calls := len(sum.micros)
		slices.Sort(sum.micros)
		c.enter(cost{
			function: name, source: "recorded", calls: calls, micros: float64(sum.micros[calls/2]),
			commands: float64(sum.commands) / float64(calls),
		})
	}
	client := c.core.Client()
	return client.Do(c.ctx, client.B().Flushdb().Build()).Error()
}

// isRefusal is whether a function refused a call or broke off.
func isRefusal(reply any) bool {
	list, ok := reply.([]any)
	if !ok {
		_, text := reply.(string)
		return !text
	}
	code, ok := list[0].(int64)
	return ok && code == 0
}

// reference is the time of a call in the reference engine (µs), for the order of magnitude: it was not measured here.
var reference = map[string]float64{
	enginerpc.FunctionName(enginerpc.CreateExecutionCall{}):   30,
	enginerpc.FunctionName(enginerpc.IssueClaimGrantCall{}):   24,
	enginerpc.FunctionName(enginerpc.ClaimExecutionCall{}):    68,
	enginerpc.FunctionName(enginerpc.RenewLeaseCall{}):        29,
	enginerpc.FunctionName(enginerpc.CompleteExecutionCall{}): 43,
}
