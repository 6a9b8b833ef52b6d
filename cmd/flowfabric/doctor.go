package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flowfabric/flowfabric-go/admin"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime"
	"github.com/flowfabric/flowfabric-go/runtime/inspection"
)

// errUnwell is the failure of a doctor that has found something to do.
var errUnwell = errors.New("something needs attention")

// repairs names the keeper tasks that repair records, in an order in which a later one can use what an earlier one has
// repaired, then those for what is due.
var repairs = []string{
	"key_reconciliation", "index_reconciliation", "member_reconciliation", "dependency_reconciliation",
	"sibling_cancel_reconciliation", "quota_reconciliation", "budget_reconciliation",
	"cancel_backlog", "propagation", "lease_expiry", "delayed_promotion", "attempt_timeout",
	"suspension_timeout", "execution_deadline", "flow_deadline", "start_deadline",
	"admission", "quota", "budget", "child_runs", "rerun",
}

// repairView is a repair as -json shows it.
type repairView struct {
	Repair   string           `json:"repair"`
	Done     int64            `json:"done"`
	Repaired map[string]int64 `json:"repaired,omitempty"`
	Error    string           `json:"error,omitempty"`
}

func prepareDoctor(flags *flag.FlagSet) action {
	withRepair := flags.Bool("repair", false, "before that, mend what does not fit together and do what is due, once")
	rewrite := flags.Bool("rewrite-log", false,
		"before that, have the servers rewrite their logs (BGREWRITEAOF), as after a crash")
	return action{need(nil), func(ctx context.Context, s *session, out *output, _ []string) error {
		var faults []error
		if *withRepair {
			faults = append(faults, repair(ctx, s, out))
		}
		if *rewrite {
			faults = append(faults, rewriteLogs(ctx, s, out))
		}
		report, err := s.engine.Inspect(ctx)
		if err != nil {
			return errors.Join(append(faults, err)...)
		}
		out.head("severity", "code", "subject", "found", "remedy")
		for _, f := range report.Findings {
			out.row(f, f.Severity.String(), string(f.Code), f.Subject, f.Found, f.Remedy)
		}
		if bad := len(report.AtLeast(inspection.Warning)); bad > 0 {
			faults = append(faults, fmt.Errorf("%w: findings of severity warning or worse: %d", errUnwell, bad))
		}
		return errors.Join(faults...)
	}}
}

// repair runs the repairs that the engine supports.
func repair(ctx context.Context, s *session, out *output) error {
	var faults []error
	out.head("repair", "done", "repaired")
	for _, task := range repairs {
		report, err := s.admin.RunKeeperTask(ctx, task, runtime.KeeperConfig{})
		if errors.Is(err, admin.ErrUnknownKeeperTask) {
			continue // contract mode leaves it to the server's own scanners
		}
		view := repairView{Repair: task, Done: report.Done, Repaired: report.Repaired}
		if err != nil {
			view.Error = err.Error()
			faults = append(faults, err)
		}
		var repaired []string
		for _, index := range slices.Sorted(maps.Keys(report.Repaired)) {
			repaired = append(repaired, index+" "+strconv.FormatInt(report.Repaired[index], 10))
		}
		out.row(view, task, strconv.FormatInt(report.Done, 10), strings.Join(repaired, ", "))
	}
	out.say("")
	return errors.Join(faults...)
}

// rewriteLogs starts a rewrite of the log on all servers, which continues in the background.
func rewriteLogs(ctx context.Context, s *session, out *output) error {
	if s.engine.Embedded() != nil {
		return fmt.Errorf("%w: -rewrite-log: the engine is no server", errUsage)
	}
	nodes := enginerpc.ConnOf(s.engine).Client().Nodes()
	for _, address := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[address]
		if err := node.Do(ctx, node.B().Bgrewriteaof().Build()).Error(); err != nil {
			return fmt.Errorf("rewrite the log of %s: %w", address, err)
		}
		out.say("%s rewrites its log", address)
	}
	return nil
}
