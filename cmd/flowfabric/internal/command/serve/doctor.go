package serve

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/findingcode"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// Repairs names the keeper tasks that repair records, in an order in which a later one can use the repairs of an
// earlier one, then the tasks for work that is due.
var Repairs = []string{
	"key_reconciliation", "index_reconciliation", "member_reconciliation", "dependency_reconciliation",
	"sibling_cancel_reconciliation", "quota_reconciliation", "budget_reconciliation",
	"cancel_backlog", "propagation", "lease_expiry", "delayed_promotion", "attempt_timeout",
	"suspension_timeout", "execution_deadline", "flow_deadline", "start_deadline",
	"admission", "quota", "budget", "child_runs", "rerun",
}

// repaired is a repair as it is printed.
type repaired struct {
	Repair   string           `json:"repair"`
	Done     int64            `json:"done"`
	Repaired map[string]int64 `json:"repaired,omitempty"`
	Error    string           `json:"error,omitempty"`
}

var repairView = output.View[repaired]{
	Name: func(r repaired) string { return r.Repair },
	Columns: []output.Column[repaired]{
		{Name: "repair", Text: func(r repaired) string { return r.Repair }},
		{Name: "done", Text: func(r repaired) string { return strconv.FormatInt(r.Done, 10) }},
		{Name: "repaired", Text: func(r repaired) string {
			var parts []string
			for _, index := range slices.Sorted(maps.Keys(r.Repaired)) {
				parts = append(parts, index+" "+strconv.FormatInt(r.Repaired[index], 10))
			}
			return strings.Join(parts, ", ")
		}},
		{Name: "error", Wide: true, Text: func(r repaired) string { return r.Error }},
	},
}

var findingView = output.View[fabrictype.Finding]{
	Name: func(f fabrictype.Finding) string { return f.Code },
	Columns: []output.Column[fabrictype.Finding]{
		{Name: "severity", Text: func(f fabrictype.Finding) string { return f.Severity.String() }},
		{Name: "code", Text: func(f fabrictype.Finding) string { return f.Code }},
		{Name: "subject", Text: func(f fabrictype.Finding) string { return f.Subject }},
		{Name: "found", Text: func(f fabrictype.Finding) string { return f.Found }},
		{Name: "remedy", Text: func(f fabrictype.Finding) string { return f.Remedy }},
	},
}

func Doctor(a *shell.App) *cobra.Command {
	var withRepair, rewrite bool
	c := a.Command(shell.Spec{
		Use: "doctor", Short: "Find faults that can lose or stop work, with remedies",
		Long: "Checks the servers of an engine, the user's rights, the function library, keepers, workers and " +
			"lanes. The exit code is 7 when there is a warning or an error. Without flags it changes nothing.",
		Calls: []httpapi.Entry{
			httpapi.Inspect, httpapi.ListWorkers, httpapi.ListKeeperTasks, httpapi.RunKeeperTask,
		},
		Columns: findingView.ColumnNames(),
		Do: func(r *shell.Request) error {
			var faults []error
			if withRepair {
				faults = append(faults, repair(r))
			}
			if rewrite {
				faults = append(faults, rewriteLogs(r))
			}
			found, err := shell.Call(r, httpapi.Inspect, httpapi.Empty{})
			if err != nil {
				return errors.Join(append(faults, err)...)
			}
			more, err := fleet(r)
			if err != nil {
				return errors.Join(append(faults, err)...)
			}
			return errors.Join(append(faults, report(r, append(found.Findings, more...)))...)
		},
		Unopened: func(r *shell.Request, err error) error {
			if finding, ok := unopenedFinding(err); ok && r.Err() == nil {
				return report(r, []fabrictype.Finding{finding})
			}
			return err
		},
	})
	c.Flags().BoolVar(&withRepair, "repair", false,
		"before that, run the repairs and the due work of keepers once")
	c.Flags().BoolVar(&rewrite, "rewrite-log", false,
		"before that, have the servers of the engine rewrite their logs (BGREWRITEAOF), as after a crash")
	return c
}

// report prints findings. Its error matches shell.ErrFound if there is a warning or worse.
func report(r *shell.Request, findings []fabrictype.Finding) error {
	bad := 0
	for _, f := range findings {
		if f.Severity >= fabrictype.SeverityWarning {
			bad++
		}
	}
	err := output.List(r.Out, findingView, findings)
	if bad > 0 {
		err = errors.Join(err, fmt.Errorf("%w: findings of severity warning or worse: %d", shell.ErrFound, bad))
	}
	return err
}

// unopenedFinding returns the finding for an engine that cannot be opened, in the form in which Engine.Inspect reports
// findings of an open one.
func unopenedFinding(err error) (fabrictype.Finding, bool) {
	f := fabrictype.Finding{Severity: fabrictype.SeverityError, Subject: "engine", Found: err.Error()}
	var lacking *enginecore.RightsError
	switch {
	case errors.As(err, &lacking):
		f.Code, f.Subject = findingcode.Rights, "user"
		f.Found = "it may not run " + strings.Join(lacking.Missing, ", ")
		f.Remedy = "ACL SETUSER <user> " + strings.Join(lacking.Rules, " ")
	case strings.Contains(err.Error(), "LOADING "):
		f.Code, f.Remedy = findingcode.Loading, "wait"
	case errors.Is(err, enginerpc.ErrReplica), strings.Contains(err.Error(), "READONLY "):
		f.Code, f.Remedy = findingcode.Replica, "name its primary, or sentinels: valkey+sentinel://…"
	case errors.Is(err, enginecore.ErrUnsupportedServer):
		f.Code, f.Remedy = findingcode.VersionOld, "run Redis 7.0, Valkey 7.2 or later"
	case errors.Is(err, enginecore.ErrNotReachable):
		f.Code, f.Remedy = findingcode.LookFailed, "see that the server runs and can be reached"
	default:
		return f, false
	}
	return f, true
}

// fleet returns a finding for each live worker.
func fleet(r *shell.Request) ([]fabrictype.Finding, error) {
	workers, err := shell.Call(r, httpapi.ListWorkers, httpapi.Empty{})
	if httpclient.Code(err) == "not_in_contract" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var findings []fabrictype.Finding
	for _, w := range workers.Items {
		findings = append(findings, fabrictype.Finding{
			Code: "worker", Severity: fabrictype.SeverityInfo, Subject: w.Instance,
			Found: fmt.Sprintf("%s on %s, %s, %d of %d slots used, lanes %s", w.Name, w.Host, wording.WorkerState(w), w.Used,
				w.Slots, strings.Join(w.Lanes, ",")),
		})
	}
	return findings, nil
}

// repair runs the repairs that the engine supports.
func repair(r *shell.Request) error {
	known, err := shell.Call(r, httpapi.ListKeeperTasks, httpapi.Empty{})
	if err != nil {
		return err
	}
	tasks := wording.Names(known.Items, func(t api.KeeperTask) string { return t.Name })
	var faults []error
	var reports []repaired
	for _, task := range Repairs {
		if !slices.Contains(tasks, task) {
			continue // contract mode leaves it to the server's own scanners
		}
		report, err := shell.Call(r, httpapi.RunKeeperTask, httpapi.KeeperTaskInput{Task: task})
		line := repaired{Repair: task}
		if err != nil {
			line.Error = err.Error()
			faults = append(faults, err)
		} else {
			line.Done, line.Repaired = report.Done, report.Repaired
		}
		reports = append(reports, line)
	}
	if r.Out.ForPeople() || r.Out.Lines() {
		faults = append(faults, output.List(r.Out, repairView, reports))
	}
	r.Out.Say("")
	return errors.Join(faults...)
}

// rewriteLogs starts a rewrite of the log on all servers, which continues in the background.
func rewriteLogs(r *shell.Request) error {
	e := r.Session.Engine
	if e == nil || e.Embedded() != nil {
		return shell.Usage("doctor: --rewrite-log needs the URL of an engine on servers")
	}
	nodes := engine.ConnOf(e.Internal()).Client().Nodes()
	for _, address := range slices.Sorted(maps.Keys(nodes)) {
		node := nodes[address]
		if err := node.Do(r, node.B().Bgrewriteaof().Build()).Error(); err != nil {
			return fmt.Errorf("rewrite the log of %s: %w", address, err)
		}
		r.Out.Say("%s rewrites its log", address)
	}
	return nil
}
