package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

func (a *App) tokenCommand() *cobra.Command {
	return a.group("token", "Manage the tokens of servers", a.tokenList(), a.tokenCreate(), a.tokenDelete())
}

var tokenView = output.View[api.Token]{
	Name: func(t api.Token) string { return t.Name },
	Columns: []output.Column[api.Token]{
		{Name: "token", Text: func(t api.Token) string { return t.Name }},
		{Name: "role", Text: func(t api.Token) string { return string(t.Role) }},
		{Name: "rights", Text: func(t api.Token) string {
			return strings.Join(names(t.Rights, func(r api.Right) string { return string(r) }), ",")
		}},
		{Name: "flows", Text: func(t api.Token) string { return t.Flows }},
		{Name: "created", Text: func(t api.Token) string { return output.At(t.CreatedAt) }},
		{Name: "by", Text: func(t api.Token) string { return t.CreatedBy }},
		{Name: "expires", Text: func(t api.Token) string { return output.At(t.ExpiresAt) }},
	},
}

func (a *App) tokenList() *cobra.Command {
	return a.command(spec{
		use: "list", short: "Show the tokens, without their secrets", calls: []httpapi.Entry{httpapi.ListTokens},
		columns: tokenView.ColumnNames(),
		do: func(r *request) error {
			tokens, err := call(r, httpapi.ListTokens, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.out, tokenView, tokens.Items)
		},
	})
}

func (a *App) tokenCreate() *cobra.Command {
	var role, rights, flows string
	var expires time.Duration
	c := a.command(spec{
		use: "create NAME", short: "Create a token; its text is shown once", calls: []httpapi.Entry{httpapi.CreateToken},
		example: "  flowfabric token create ann --role operator --flows 'billing-*' --expires 720h",
		check:   func([]string) error { return notNegative("expires", expires) },
		do: func(r *request) error {
			in := httpapi.CreateTokenInput{}
			in.Body.Name, in.Body.Role, in.Body.Flows = r.args[0], api.Role(role), flows
			in.Body.Expires = fabrictype.Duration{Duration: expires}
			for _, right := range list(rights) {
				in.Body.Rights = append(in.Body.Rights, api.Right(right))
			}
			created, err := call(r, httpapi.CreateToken, in)
			if err != nil {
				return err
			}
			return r.out.Value(created, created.Name, created.Text)
		},
	})
	c.Flags().StringVar(&role, "role", "viewer", "viewer, operator, admin or worker")
	c.Flags().StringVar(&rights, "rights", "",
		"rights in addition to the role's, with commas: approve, payloads:read, work")
	c.Flags().StringVar(&flows, "flows", "", "a `pattern` of the flows that it is for, such as billing-*")
	c.Flags().DurationVar(&expires, "expires", 0, "how long it is valid; unlimited by default")
	return c
}

func (a *App) tokenDelete() *cobra.Command {
	return a.command(spec{
		use: "delete TOKEN", short: "Delete a token; it ends at once", calls: []httpapi.Entry{httpapi.DeleteToken},
		do: func(r *request) error {
			look := func() error {
				tokens, err := call(r, httpapi.ListTokens, httpapi.Empty{})
				if err != nil {
					return err
				}
				for _, t := range tokens.Items {
					if t.Name == r.args[0] {
						return nil
					}
				}
				return &api.Problem{Status: 404, Code: "token_not_found",
					Detail: "no token has the name " + strconv.Quote(r.args[0])}
			}
			return r.destroy("delete token "+r.args[0], look, func() error {
				_, err := call(r, httpapi.DeleteToken, httpapi.TokenNameInput{Token: r.args[0]})
				return r.done("deleted", r.args[0], err)
			})
		},
	})
}

func (a *App) sessionCommand() *cobra.Command {
	return a.group("session", "Manage the sessions of browsers that have logged in at servers", a.sessionList(),
		a.sessionDelete())
}

var sessionView = output.View[api.Session]{
	Name: func(s api.Session) string { return s.ID },
	Columns: []output.Column[api.Session]{
		{Name: "session", Text: func(s api.Session) string { return s.ID }},
		{Name: "principal", Text: func(s api.Session) string { return s.Principal }},
		{Name: "login", Text: func(s api.Session) string { return s.Login }},
		{Name: "groups", Wide: true, Text: func(s api.Session) string { return strings.Join(s.Groups, ",") }},
		{Name: "created", Text: func(s api.Session) string { return output.At(s.CreatedAt) }},
		{Name: "expires", Text: func(s api.Session) string { return output.At(s.ExpiresAt) }},
	},
}

func (a *App) sessionList() *cobra.Command {
	in := httpapi.ListSessionsInput{}
	var limit *limitFlag
	c := a.command(spec{
		use: "list", short: "Show the sessions of browsers that have logged in", calls: []httpapi.Entry{httpapi.ListSessions},
		columns: sessionView.ColumnNames(),
		check:   func([]string) error { return limit.check() },
		do: func(r *request) error {
			page := func(p api.Paging) httpapi.ListSessionsInput {
				in.Paging = p
				return in
			}
			sessions, more, err := pages(r, httpapi.ListSessions, limit.most(r), page)
			if err != nil {
				return err
			}
			err = output.List(r.out, sessionView, sessions)
			r.sayMore(more)
			return err
		},
	})
	c.Flags().StringVar(&in.Principal, "principal", "", "only sessions of this principal")
	limit = declareLimit(c, 50)
	return c
}

func (a *App) sessionDelete() *cobra.Command {
	return a.command(spec{
		use: "delete SESSION", short: "End a session; its streams end within some seconds",
		calls: []httpapi.Entry{httpapi.DeleteSession},
		do: func(r *request) error {
			look := func() error {
				sessions, _, err := pages(r, httpapi.ListSessions, 0, func(p api.Paging) httpapi.ListSessionsInput {
					return httpapi.ListSessionsInput{Paging: p}
				})
				if err != nil {
					return err
				}
				for _, s := range sessions {
					if s.ID == r.args[0] {
						return nil
					}
				}
				return &api.Problem{Status: 404, Code: "session_not_found",
					Detail: "no session has the id " + strconv.Quote(r.args[0])}
			}
			return r.destroy("end session "+r.args[0], look, func() error {
				_, err := call(r, httpapi.DeleteSession, httpapi.SessionInput{Session: r.args[0]})
				return r.done("ended", r.args[0], err)
			})
		},
	})
}

func (a *App) secretCommand() *cobra.Command {
	var grace time.Duration
	c := a.command(spec{
		use: "rotate", short: "Sign the tokens of waits with a new secret", calls: []httpapi.Entry{httpapi.RotateSecrets},
		check: func([]string) error { return notNegative("grace", grace) },
		do: func(r *request) error {
			in := httpapi.RotateSecretsInput{}
			in.Body.Grace = fabrictype.Duration{Duration: grace}
			rotated, err := call(r, httpapi.RotateSecrets, in)
			if err != nil {
				return err
			}
			if rotated.Failed > 0 {
				return fmt.Errorf("partitions that keep the old secret: %d; repeat the command", rotated.Failed)
			}
			return r.out.Value(rotated, "", fmt.Sprintf("partitions with the new secret: %d", rotated.Rotated))
		},
	})
	c.Flags().DurationVar(&grace, "grace", 0,
		"how long tokens that were signed with the old secret are valid; a day by default")
	return a.group("secret", "Rotate the secret of the tokens of waits", c)
}

var auditView = output.View[fabrictype.AuditEntry]{
	Name: func(e fabrictype.AuditEntry) string { return e.ID },
	Columns: []output.Column[fabrictype.AuditEntry]{
		{Name: "time", Text: func(e fabrictype.AuditEntry) string { return output.At(e.At) }},
		{Name: "actor", Text: func(e fabrictype.AuditEntry) string { return e.Actor }},
		{Name: "action", Text: func(e fabrictype.AuditEntry) string { return string(e.Action) }},
		{Name: "name", Text: func(e fabrictype.AuditEntry) string { return e.Name }},
		{Name: "detail", Text: func(e fabrictype.AuditEntry) string { return e.Detail }},
		{Name: "failure", Text: func(e fabrictype.AuditEntry) string { return e.Failure }},
		{Name: "id", Wide: true, Text: func(e fabrictype.AuditEntry) string { return e.ID }},
	},
}

func (a *App) auditCommand() *cobra.Command {
	in := api.ListAuditInput{}
	var since time.Duration
	var limit *limitFlag
	c := a.command(spec{
		use: "audit", short: "Show the changes with their actors, the latest first", calls: []httpapi.Entry{httpapi.ListAudit},
		columns: auditView.ColumnNames(),
		check: func([]string) error {
			return errors.Join(limit.check(), notNegative("since", since))
		},
		do: func(r *request) error {
			if since > 0 {
				in.From = r.Now().Add(-since)
			}
			entries, more, err := pages(r, httpapi.ListAudit, limit.most(r), func(p api.Paging) api.ListAuditInput {
				in.Paging = p
				return in
			})
			if err != nil {
				return err
			}
			err = output.List(r.out, auditView, entries)
			r.sayMore(more)
			return err
		},
	})
	c.Flags().StringVar(&in.Actor, "by", "", "only actions of this actor")
	c.Flags().StringVar(&in.Action, "action", "", "only this action, such as set_limit")
	c.Flags().StringVar(&in.Name, "name", "", "only actions on objects with this name")
	c.Flags().DurationVar(&since, "since", 0, "only actions within this time, up to now; 0 is all")
	limit = declareLimit(c, 50)
	return c
}

func (a *App) executionCommand() *cobra.Command {
	return a.group("execution", "Show executions of any program", a.executionList(), a.executionShow())
}

var executionView = output.View[api.Execution]{
	Name: func(e api.Execution) string { return e.ID },
	Columns: []output.Column[api.Execution]{
		{Name: "execution", Text: func(e api.Execution) string { return e.ID }},
		{Name: "node", Text: func(e api.Execution) string { return e.Node }},
		{Name: "kind", Text: func(e api.Execution) string { return e.Kind }},
		{Name: "lane", Text: func(e api.Execution) string { return e.Lane }},
		{Name: "state", Text: func(e api.Execution) string { return e.State }},
		{Name: "priority", Text: func(e api.Execution) string { return strconv.Itoa(e.Priority) }},
		{Name: "attempts", Text: func(e api.Execution) string { return strconv.Itoa(e.Attempts) }},
		{Name: "worker", Wide: true, Text: func(e api.Execution) string { return e.Worker }},
		{Name: "created", Text: func(e api.Execution) string { return output.At(e.CreatedAt) }},
		{Name: "detail", Text: func(e api.Execution) string { return e.Detail }},
		{Name: "tags", Wide: true, Text: func(e api.Execution) string { return output.Tags(e.Tags) }},
	},
}

func (a *App) executionList() *cobra.Command {
	in := api.ListExecutionsInput{}
	tags := tagFlag{}
	var states string
	var limit *limitFlag
	c := a.command(spec{
		use: "list", short: "List executions, in no particular order", calls: []httpapi.Entry{httpapi.ListExecutions},
		columns: executionView.ColumnNames(),
		check:   func([]string) error { return limit.check() },
		do: func(r *request) error {
			in.States = list(states)
			in.Tags = nil
			for key, value := range tags {
				in.Tags = append(in.Tags, key+"="+value)
			}
			page := func(p api.Paging) api.ListExecutionsInput {
				in.Paging = p
				return in
			}
			executions, more, err := pages(r, httpapi.ListExecutions, limit.most(r), page)
			if err != nil {
				return err
			}
			err = output.List(r.out, executionView, executions)
			r.sayMore(more)
			return err
		},
	})
	c.Flags().StringVar(&in.Lane, "lane", "", "only executions of this lane")
	a.completeFlag(c, "lane", "LANE")
	c.Flags().StringVar(&states, "state", "",
		"only these states, with commas: waiting, delayed, active, suspended, completed, failed, …")
	c.Flags().StringVar(&in.FlowID, "flow-id", "", "only members of the flow with this id")
	c.Flags().StringVar(&in.Index, "index", "",
		"only executions in this index of the lane: eligible, delayed, active, suspended, terminal, …")
	c.Flags().Var(tags, "tag", "only executions with this tag; may be given several times")
	limit = declareLimit(c, 50)
	return c
}

func (a *App) executionShow() *cobra.Command {
	return a.command(spec{
		use: "show EXECUTION", short: "Show an execution", calls: []httpapi.Entry{httpapi.GetExecution},
		check: func(args []string) error {
			_, err := keyspace.ParseExecutionID(args[0])
			return err
		},
		do: func(r *request) error {
			e, err := call(r, httpapi.GetExecution, httpapi.ExecutionInput{Execution: r.args[0]})
			if err != nil {
				return err
			}
			return r.out.Value(e, e.ID, executionText(e))
		},
	})
}

// runOf names the run of an execution as other commands take it.
func runOf(e *api.Execution) string {
	if e.Run == "" {
		return ""
	}
	return path(httpapi.RunName{Flow: e.Flow, Run: e.Run})
}

func executionText(e *api.Execution) string {
	var text strings.Builder
	for _, line := range [][2]string{
		{"execution", e.ID}, {"run", runOf(e)}, {"node", e.Node}, {"flow id", e.FlowID}, {"kind", e.Kind},
		{"lane", e.Lane}, {"state", e.State},
		{"phase", e.Phase}, {"ownership", e.Ownership}, {"eligibility", e.Eligibility}, {"detail", e.Detail},
		{"priority", strconv.Itoa(e.Priority)},
		{"attempts",
			fmt.Sprintf("%d, %d retries, %d reclaims, %d replays", e.Attempts, e.Retries, e.Reclaims, e.Replays)},
		{"worker", e.Worker}, {"lease until", output.At(e.LeaseExpiresAt)}, {"failure", e.Failure},
		{"cancelled", e.CancelReason}, {"created", output.At(e.CreatedAt)}, {"started", output.At(e.StartedAt)},
		{"completed", output.At(e.CompletedAt)}, {"tags", output.Tags(e.Tags)},
	} {
		if line[1] != "" && line[1] != "-" {
			fmt.Fprintf(&text, "%-12s %s\n", line[0], line[1])
		}
	}
	return text.String()
}

// rules are a user's rights.
type rules struct {
	User  string `json:"user"`
	Rules string `json:"rules"`
}

func (a *App) aclCommand() *cobra.Command {
	var deployer bool
	find := func() (string, error) {
		of := enginecore.ApplicationRules
		if deployer {
			of = enginecore.DeployerRules
		}
		return of(cmp.Or(a.flags.prefix, keyprefix.Default))
	}
	c := a.standalone(spec{
		use: "acl USER", short: "Print the ACL SETUSER line of an application, or of a deployer",
		check: func(args []string) error {
			hidden := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
			if strings.ContainsFunc(args[0], hidden) {
				return fmt.Errorf("USER %q: a name has no spaces", args[0])
			}
			_, err := find()
			return err
		},
		do: func(r *request) error {
			text, err := find()
			if err != nil {
				return err
			}
			return r.out.Value(rules{r.args[0], text}, r.args[0], "ACL SETUSER "+r.args[0]+" on "+text)
		},
	})
	c.Flags().BoolVar(&deployer, "deployer", false, "may load and replace the function library as well")
	return c
}

// programVersion is the version of the command.
type programVersion struct {
	Version string `json:"version"`
}

func (a *App) versionCommand() *cobra.Command {
	return a.standalone(spec{
		use: "version", short: "Print the version of the command",
		do: func(r *request) error {
			v := programVersion{connect.Version()}
			return r.out.Value(v, v.Version, "flowfabric version "+v.Version)
		},
	})
}

func (a *App) infoCommand() *cobra.Command {
	return a.command(spec{
		use: "info", short: "Describe the engine or server, and who calls it", calls: []httpapi.Entry{httpapi.GetServer},
		do: func(r *request) error {
			s, err := call(r, httpapi.GetServer, httpapi.Empty{})
			if err != nil {
				return err
			}
			who := s.Principal
			text := fmt.Sprintf("engine %s, namespace %s\ncalls as %s (%s), rights %s", s.Engine, s.Namespace, who.Name,
				who.Login,
				strings.Join(names(who.Rights, func(r api.Right) string { return string(r) }), ", "))
			if who.Flows != "" {
				text += ", flows " + who.Flows
			}
			if s.ReadOnly {
				text += "\nread-only"
			}
			return r.out.Value(s, who.Name, text)
		},
	})
}

var taskView = output.View[api.KeeperTask]{
	Name: func(t api.KeeperTask) string { return t.Name },
	Columns: []output.Column[api.KeeperTask]{
		{Name: "task", Text: func(t api.KeeperTask) string { return t.Name }},
		{Name: "every", Text: func(t api.KeeperTask) string { return t.Every.String() }},
		{Name: "behind", Text: func(t api.KeeperTask) string {
			if t.Lag == nil {
				return ""
			}
			return t.Lag.Behind.Round(time.Millisecond).String()
		}},
		{Name: "summary", Text: func(t api.KeeperTask) string { return t.Summary }},
	},
}

func (a *App) keeperTasks() *cobra.Command {
	return a.command(spec{
		use: "tasks", short: "Show the tasks of keepers", calls: []httpapi.Entry{httpapi.ListKeeperTasks},
		columns: taskView.ColumnNames(),
		do: func(r *request) error {
			tasks, err := call(r, httpapi.ListKeeperTasks, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.out, taskView, tasks.Items)
		},
	})
}

func (a *App) keeperRun() *cobra.Command {
	return a.command(spec{
		use: "run TASK", short: "Carry out a task of keepers now", calls: []httpapi.Entry{httpapi.RunKeeperTask},
		do: func(r *request) error {
			report, err := call(r, httpapi.RunKeeperTask, httpapi.KeeperTaskInput{Task: r.args[0]})
			if err != nil {
				return err
			}
			text := fmt.Sprintf("done %d, partitions %d, remaining %d", report.Done, report.Partitions,
				report.Remaining)
			if len(report.Repaired) > 0 {
				text += ", repaired " + compact(report.Repaired)
			}
			return r.out.Value(report, report.Task,
				text)
		},
	})
}

// sleep waits for a time. It returns false if the context ends before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
