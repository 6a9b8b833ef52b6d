package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/connect"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/internal/keyprefix"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
	"github.com/flowfabric/flowfabric-go/internal/lualib"
)

func Token(a *shell.App) *cobra.Command {
	return a.Group("token", "Manage the tokens of servers", tokenList(a), tokenCreate(a), tokenDelete(a))
}

var tokenView = output.View[api.Token]{
	Name: func(t api.Token) string { return t.Name },
	Columns: []output.Column[api.Token]{
		{Name: "token", Text: func(t api.Token) string { return t.Name }},
		{Name: "role", Text: func(t api.Token) string { return string(t.Role) }},
		{Name: "rights", Text: func(t api.Token) string {
			return strings.Join(wording.Names(t.Rights, func(r api.Right) string { return string(r) }), ",")
		}},
		{Name: "flows", Text: func(t api.Token) string { return t.Flows }},
		{Name: "created", Text: func(t api.Token) string { return output.At(t.CreatedAt) }},
		{Name: "by", Text: func(t api.Token) string { return t.CreatedBy }},
		{Name: "expires", Text: func(t api.Token) string { return output.At(t.ExpiresAt) }},
	},
}

func tokenList(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "list", Short: "Show the tokens, without their secrets", Calls: []httpapi.Entry{httpapi.ListTokens},
		Columns: tokenView.ColumnNames(),
		Do: func(r *shell.Request) error {
			tokens, err := shell.Call(r, httpapi.ListTokens, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.Out, tokenView, tokens.Items)
		},
	})
}

func tokenCreate(a *shell.App) *cobra.Command {
	var role, rights, flows string
	var expires time.Duration
	c := a.Command(shell.Spec{
		Use: "create NAME", Short: "Create a token; its text is shown once", Calls: []httpapi.Entry{httpapi.CreateToken},
		Example: "  flowfabric token create ann --role operator --flows 'billing-*' --expires 720h",
		Check:   func([]string) error { return shell.NotNegative("expires", expires) },
		Do: func(r *shell.Request) error {
			in := httpapi.CreateTokenInput{}
			in.Body.Name, in.Body.Role, in.Body.Flows = r.Args[0], api.Role(role), flows
			in.Body.Expires = fabrictype.Duration{Duration: expires}
			for _, right := range cliflag.List(rights) {
				in.Body.Rights = append(in.Body.Rights, api.Right(right))
			}
			created, err := shell.Call(r, httpapi.CreateToken, in)
			if err != nil {
				return err
			}
			return r.Out.Value(created, created.Name, created.Text)
		},
	})
	c.Flags().StringVar(&role, "role", "viewer", "viewer, operator, admin or worker")
	c.Flags().StringVar(&rights, "rights", "",
		"rights in addition to the role's, with commas: approve, payloads:read, work")
	c.Flags().StringVar(&flows, "flows", "", "a `pattern` of the flows that it is for, such as billing-*")
	cliflag.DeclareDuration(c.Flags(), &expires, "expires", 0, "how long it is valid; unlimited by default")
	return c
}

func tokenDelete(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "delete TOKEN", Short: "Delete a token; it ends at once", Calls: []httpapi.Entry{httpapi.DeleteToken},
		Do: func(r *shell.Request) error {
			look := func() error {
				tokens, err := shell.Call(r, httpapi.ListTokens, httpapi.Empty{})
				if err != nil {
					return err
				}
				for _, t := range tokens.Items {
					if t.Name == r.Args[0] {
						return nil
					}
				}
				return &api.Problem{Status: 404, Code: "token_not_found",
					Detail: "no token has the name " + strconv.Quote(r.Args[0])}
			}
			return r.Destroy("delete token "+r.Args[0], look, func() error {
				_, err := shell.Call(r, httpapi.DeleteToken, httpapi.TokenNameInput{Token: r.Args[0]})
				return r.PrintDone("deleted", r.Args[0], err)
			})
		},
	})
}

func Session(a *shell.App) *cobra.Command {
	return a.Group("session", "Manage the sessions of browsers that have logged in at servers", sessionList(a),
		sessionDelete(a))
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

func sessionList(a *shell.App) *cobra.Command {
	in := httpapi.ListSessionsInput{}
	var limit *cliflag.Limit
	c := a.Command(shell.Spec{
		Use: "list", Short: "Show the sessions of browsers that have logged in", Calls: []httpapi.Entry{httpapi.ListSessions},
		Columns: sessionView.ColumnNames(),
		Check:   func([]string) error { return limit.Check() },
		Do: func(r *shell.Request) error {
			page := func(p api.Paging) httpapi.ListSessionsInput {
				in.Paging = p
				return in
			}
			sessions, more, err := shell.Pages(r, httpapi.ListSessions, limit.Most(r), page)
			if err != nil {
				return err
			}
			err = output.List(r.Out, sessionView, sessions)
			r.SayMore(more)
			return err
		},
	})
	c.Flags().StringVar(&in.Principal, "principal", "", "only sessions of this principal")
	limit = cliflag.DeclareLimit(c, 50)
	return c
}

func sessionDelete(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "delete SESSION", Short: "End a session; its streams end within some seconds",
		Calls: []httpapi.Entry{httpapi.DeleteSession},
		Do: func(r *shell.Request) error {
			look := func() error {
				page := func(p api.Paging) httpapi.ListSessionsInput {
					return httpapi.ListSessionsInput{Paging: p}
				}
				sessions, _, err := shell.Pages(r, httpapi.ListSessions, 0, page)
				if err != nil {
					return err
				}
				for _, s := range sessions {
					if s.ID == r.Args[0] {
						return nil
					}
				}
				return &api.Problem{Status: 404, Code: "session_not_found",
					Detail: "no session has the id " + strconv.Quote(r.Args[0])}
			}
			return r.Destroy("end session "+r.Args[0], look, func() error {
				_, err := shell.Call(r, httpapi.DeleteSession, httpapi.SessionInput{Session: r.Args[0]})
				return r.PrintDone("ended", r.Args[0], err)
			})
		},
	})
}

func Secret(a *shell.App) *cobra.Command {
	var grace time.Duration
	c := a.Command(shell.Spec{
		Use: "rotate", Short: "Sign the tokens of waits with a new secret", Calls: []httpapi.Entry{httpapi.RotateSecrets},
		Check: func([]string) error { return shell.NotNegative("grace", grace) },
		Do: func(r *shell.Request) error {
			in := httpapi.RotateSecretsInput{}
			in.Body.Grace = fabrictype.Duration{Duration: grace}
			rotated, err := shell.Call(r, httpapi.RotateSecrets, in)
			if err != nil {
				return err
			}
			if rotated.Failed > 0 {
				return fmt.Errorf("partitions that keep the old secret: %d; repeat the command", rotated.Failed)
			}
			return r.Out.Value(rotated, "", fmt.Sprintf("partitions with the new secret: %d", rotated.Rotated))
		},
	})
	cliflag.DeclareDuration(c.Flags(), &grace, "grace", 0,
		"how long tokens that were signed with the old secret are valid; a day by default")
	return a.Group("secret", "Rotate the secret of the tokens of waits", c)
}

var auditView = output.View[fabrictype.AuditEntry]{
	Name: func(e fabrictype.AuditEntry) string { return e.ID },
	Columns: []output.Column[fabrictype.AuditEntry]{
		{Name: "time", Text: func(e fabrictype.AuditEntry) string { return output.At(e.At) }},
		{Name: "actor", Text: func(e fabrictype.AuditEntry) string { return e.Actor }},
		{Name: "action", Text: func(e fabrictype.AuditEntry) string { return e.Action }},
		{Name: "name", Text: func(e fabrictype.AuditEntry) string { return e.Name }},
		{Name: "detail", Text: func(e fabrictype.AuditEntry) string { return e.Detail }},
		{Name: "failure", Text: func(e fabrictype.AuditEntry) string { return e.Failure }},
		{Name: "id", Wide: true, Text: func(e fabrictype.AuditEntry) string { return e.ID }},
	},
}

func Audit(a *shell.App) *cobra.Command {
	in := api.ListAuditInput{}
	var since, until *cliflag.Time
	var limit *cliflag.Limit
	c := a.Command(shell.Spec{
		Use: "audit", Short: "Show the changes with their actors, the latest first", Calls: []httpapi.Entry{httpapi.ListAudit},
		Columns: auditView.ColumnNames(),
		Check: func([]string) error {
			return errors.Join(limit.Check(), since.Parse("since", a.Now()), until.Parse("until", a.Now()))
		},
		Do: func(r *shell.Request) error {
			in.From, in.Before = since.Time, until.Time
			page := func(p api.Paging) api.ListAuditInput {
				in.Paging = p
				return in
			}
			entries, more, err := shell.Pages(r, httpapi.ListAudit, limit.Most(r), page)
			if err != nil {
				return err
			}
			err = output.List(r.Out, auditView, entries)
			r.SayMore(more)
			return err
		},
	})
	c.Flags().StringVar(&in.Actor, "by", "", "only actions of this actor")
	c.Flags().StringVar(&in.Action, "action", "", "only this action, such as set_limit")
	c.Flags().StringVar(&in.Name, "name", "", "only actions on objects with this name")
	since = cliflag.DeclareSince(c.Flags(), "since", "only actions since then")
	until = cliflag.DeclareUntil(c.Flags(), "until", "only actions before")
	limit = cliflag.DeclareLimit(c, 50)
	return c
}

func Execution(a *shell.App) *cobra.Command {
	return a.Group("execution", "Show executions of any program", executionList(a), executionShow(a))
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

func executionList(a *shell.App) *cobra.Command {
	in := api.ListExecutionsInput{}
	tags := cliflag.Tags{}
	var states string
	var limit *cliflag.Limit
	c := a.Command(shell.Spec{
		Use: "list", Short: "List executions, in no particular order", Calls: []httpapi.Entry{httpapi.ListExecutions},
		Columns: executionView.ColumnNames(),
		Check:   func([]string) error { return limit.Check() },
		Do: func(r *shell.Request) error {
			in.States = cliflag.List(states)
			in.Tags = nil
			for key, value := range tags {
				in.Tags = append(in.Tags, key+"="+value)
			}
			page := func(p api.Paging) api.ListExecutionsInput {
				in.Paging = p
				return in
			}
			executions, more, err := shell.Pages(r, httpapi.ListExecutions, limit.Most(r), page)
			if err != nil {
				return err
			}
			err = output.List(r.Out, executionView, executions)
			r.SayMore(more)
			return err
		},
	})
	c.Flags().StringVar(&in.Lane, "lane", "", "only executions of this lane")
	a.CompleteFlag(c, "lane", "LANE")
	c.Flags().StringVar(&states, "state", "",
		"only these states, with commas: waiting, delayed, active, suspended, completed, failed, …")
	c.Flags().StringVar(&in.FlowID, "flow-id", "", "only members of the flow with this id")
	c.Flags().StringVar(&in.Index, "index", "",
		"only executions in this index of the lane: eligible, delayed, active, suspended, terminal, …")
	c.Flags().Var(tags, "tag", "only executions with this tag; may be given several times")
	limit = cliflag.DeclareLimit(c, 50)
	return c
}

func executionShow(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "show EXECUTION", Short: "Show an execution", Calls: []httpapi.Entry{httpapi.GetExecution},
		Check: func(args []string) error {
			_, err := keyspace.ParseExecutionID(args[0])
			return err
		},
		Do: func(r *shell.Request) error {
			e, err := shell.Call(r, httpapi.GetExecution, httpapi.ExecutionInput{Execution: r.Args[0]})
			if err != nil {
				return err
			}
			return r.Out.Value(e, e.ID, executionText(e))
		},
	})
}

// runOf names the run of an execution as other commands take it.
func runOf(e *api.Execution) string {
	if e.Run == "" {
		return ""
	}
	return wording.Path(httpapi.RunName{Flow: e.Flow, Run: e.Run})
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

func ACL(a *shell.App) *cobra.Command {
	var deployer bool
	find := func() (string, error) {
		of := enginecore.ApplicationRules
		if deployer {
			of = enginecore.DeployerRules
		}
		return of(cmp.Or(a.Flags.Prefix, keyprefix.Default))
	}
	c := a.Standalone(shell.Spec{
		Use: "acl USER", Short: "Print the ACL SETUSER line of an application, or of a deployer",
		Check: func(args []string) error {
			hidden := func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }
			if strings.ContainsFunc(args[0], hidden) {
				return fmt.Errorf("USER %q: a name has no spaces", args[0])
			}
			_, err := find()
			return err
		},
		Do: func(r *shell.Request) error {
			text, err := find()
			if err != nil {
				return err
			}
			return r.Out.Value(rules{r.Args[0], text}, r.Args[0], "ACL SETUSER "+r.Args[0]+" on "+text)
		},
	})
	c.Flags().BoolVar(&deployer, "deployer", false, "may load and replace the function library as well")
	return c
}

// programVersion is the version of the command, and of the server that it reaches.
type programVersion struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
	Library  string `json:"library"`
	Protocol int    `json:"protocol"`

	Server *serverVersion `json:"server,omitempty"`
}

// serverVersion is the version of a server.
type serverVersion struct {
	URL      string `json:"url"`
	Version  string `json:"version,omitempty"`
	Library  string `json:"library,omitempty"`
	Protocol int    `json:"protocol,omitempty"`
	Error    string `json:"error,omitempty"`
}

func Version(a *shell.App) *cobra.Command {
	return a.Standalone(shell.Spec{
		Use: "version", Short: "Print the versions of the command and of the server that it reaches",
		Long: "Prints the version of the command, its revision, the build of the function library that it carries and the " +
			"protocol between the library and programs, and the same of the server, if one is named or answers locally.",
		Do: func(r *shell.Request) error {
			v := programVersion{
				Version: connect.Version(), Revision: connect.Revision(), Go: runtime.Version(),
				Library: lualib.Build(), Protocol: lualib.Protocol, Server: versionOfServer(r),
			}
			text := "flowfabric version " + v.Version
			if v.Revision != "" {
				text += "\nrevision  " + v.Revision
			}
			text += fmt.Sprintf("\nlibrary   %s, protocol %d\nbuilt by  %s", v.Library, v.Protocol, v.Go)
			switch s := v.Server; {
			case s == nil:
			case s.Error != "":
				text += fmt.Sprintf("\nserver    %s does not answer: %s", s.URL, s.Error)
			default:
				text += fmt.Sprintf("\nserver    %s, version %s, library %s, protocol %d", s.URL, s.Version, s.Library, s.Protocol)
			}
			return r.Out.Value(v, v.Version, text)
		},
	})
}

// versionOfServer returns the version of the server that a command would reach; nil for an engine, and where no server
// is named and none answers.
func versionOfServer(r *shell.Request) *serverVersion {
	const patience = 5 * time.Second
	ctx, cancel := context.WithTimeout(r, patience)
	defer cancel()
	where, err := r.Reach(ctx)
	if err != nil || !where.IsServer() {
		return nil
	}
	found := &serverVersion{URL: connect.ShownURL(where.URL)}
	session, err := r.Open(ctx, where)
	if err == nil {
		defer session.Close()
		var info *api.ServerInfo
		if info, err = session.Client.GetServer(ctx); err == nil {
			found.Version, found.Library, found.Protocol = info.Version, info.Library, info.Protocol
			return found
		}
	}
	found.Error = err.Error()
	return found
}

func Info(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "info", Short: "Describe the engine or server, and who calls it", Calls: []httpapi.Entry{httpapi.GetServer},
		Do: func(r *shell.Request) error {
			s, err := shell.Call(r, httpapi.GetServer, httpapi.Empty{})
			if err != nil {
				return err
			}
			who := s.Principal
			text := fmt.Sprintf("engine %s, namespace %s\ncalls as %s (%s), rights %s", s.Engine, s.Namespace, who.Name,
				who.Login,
				strings.Join(wording.Names(who.Rights, func(r api.Right) string { return string(r) }), ", "))
			if who.Flows != "" {
				text += ", flows " + who.Flows
			}
			if s.ReadOnly {
				text += "\nread-only"
			}
			return r.Out.Value(s, who.Name, text)
		},
	})
}
