package load

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func Limit(a *shell.App) *cobra.Command {
	return a.Group("limit", "Show and change limits", limitList(a), limitShow(a), limitUse(a), limitSet(a),
		limitReset(a))
}

var limitView = output.View[fabrictype.Limit]{
	Name: func(l fabrictype.Limit) string { return l.Name },
	Columns: []output.Column[fabrictype.Limit]{
		{Name: "limit", Text: func(l fabrictype.Limit) string { return l.Name }},
		{Name: "key", Text: func(l fabrictype.Limit) string { return l.Key }},
		{Name: "at most", Text: func(l fabrictype.Limit) string {
			if l.AtMost == 0 {
				return ""
			}
			return fmt.Sprintf("%d per %s", l.AtMost, l.Per)
		}},
		{Name: "at once", Text: func(l fabrictype.Limit) string { return wording.Number(l.AtOnce) }},
		{Name: "running", Text: func(l fabrictype.Limit) string { return strconv.Itoa(l.Running) }},
		{Name: "started", Text: func(l fabrictype.Limit) string { return strconv.Itoa(l.Started) }},
		{Name: "waiting", Text: func(l fabrictype.Limit) string { return strconv.Itoa(l.Waiting) }},
		{Name: "set by", Text: func(l fabrictype.Limit) string { return setBy(l.Set) }},
	},
}

func setBy(operator bool) string {
	if operator {
		return "operator"
	}
	return "flow"
}

func limitList(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "list", Short: "Show the limits", Calls: []httpapi.Entry{httpapi.ListLimits}, Columns: limitView.ColumnNames(),
		Do: func(r *shell.Request) error {
			limits, err := shell.Call(r, httpapi.ListLimits, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.Out, limitView, limits.Items)
		},
	})
}

func declareKey(c *cobra.Command, key *string, what string) {
	c.Flags().StringVar(key, "key", "", "the key of a "+what+" with keys")
}

func limitInput(r *shell.Request, key string) httpapi.LimitInput {
	return httpapi.LimitInput{Limit: r.Args[0], Key: key}
}

func printLimit(r *shell.Request, l *fabrictype.Limit, err error) error {
	if err != nil {
		return err
	}
	if !r.Out.ForPeople() {
		return r.Out.Value(l, l.Name, "")
	}
	return output.List(r.Out, limitView, []fabrictype.Limit{*l})
}

func limitShow(a *shell.App) *cobra.Command {
	var key string
	c := a.Command(shell.Spec{
		Use: "show LIMIT", Short: "Show a limit", Calls: []httpapi.Entry{httpapi.GetLimit}, Columns: limitView.ColumnNames(),
		Do: func(r *shell.Request) error {
			l, err := shell.Call(r, httpapi.GetLimit, limitInput(r, key))
			return printLimit(r, l, err)
		},
	})
	declareKey(c, &key, "limit")
	return c
}

func limitSet(a *shell.App) *cobra.Command {
	var key string
	var atMost, atOnce int
	var per time.Duration
	var c *cobra.Command
	c = a.Command(shell.Spec{
		Use: "set LIMIT", Short: "Set a limit, overriding the declarations of flows",
		Long: "Sets a limit, overriding the declarations of flows. Parts without a flag stay unchanged; --at-most 0 " +
			"and --at-once 0 remove that part.",
		Calls:   []httpapi.Entry{httpapi.SetLimit, httpapi.GetLimit},
		Example: "  flowfabric limit set crm --at-most 10 --per 1s --at-once 3",
		Columns: limitView.ColumnNames(),
		Check: func([]string) error {
			given := c.Flags().Changed
			switch {
			case !given("at-most") && !given("per") && !given("at-once"):
				return errors.New("takes --at-most with --per, --at-once, or both")
			case (atMost != 0) != (per != 0):
				return errors.New("--at-most and --per belong together")
			}
			return errors.Join(shell.NotNegative("at-most", atMost), shell.NotNegative("at-once", atOnce), shell.NotNegative("per", per))
		},
		Do: func(r *shell.Request) error {
			l, err := onPresent(func() (*fabrictype.Limit, error) {
				in := httpapi.SetLimitInput{LimitInput: limitInput(r, key)}
				present, tag, err := r.Session.Client.GetLimit(r, in.Limit, in.Key)
				switch {
				case err == nil:
					in.IfMatch = tag
					in.Body.AtMost, in.Body.AtOnce, in.Body.Per = present.AtMost, present.AtOnce, present.Per
				case httpclient.Code(err) != "limit_not_found":
					return nil, err
				}
				if given := c.Flags().Changed; given("at-most") || given("per") {
					in.Body.AtMost, in.Body.Per = atMost, fabrictype.Duration{Duration: per}
				}
				if c.Flags().Changed("at-once") {
					in.Body.AtOnce = atOnce
				}
				if in.Body.AtMost == 0 && in.Body.AtOnce == 0 {
					return nil, shell.Usage("limit set: %s would have no part left: limit reset returns to the declarations "+
						"of flows", r.Args[0])
				}
				return shell.Call(r, httpapi.SetLimit, in)
			})
			return printLimit(r, l, err)
		},
	})
	declareKey(c, &key, "limit")
	c.Flags().IntVar(&atMost, "at-most", 0, "the maximum of starts within --per; 0 means no maximum")
	cliflag.DeclareDuration(c.Flags(), &per, "per", 0, "the time of --at-most")
	c.Flags().IntVar(&atOnce, "at-once", 0, "the maximum of executions at a time; 0 means no maximum")
	return c
}

// presentTries bounds how often a command reads a limit or a budget that it changes.
const presentTries = 3

// onPresent reads and changes something, again if others have changed it between the two.
func onPresent[T any](change func() (*T, error)) (changed *T, err error) {
	for range presentTries {
		if changed, err = change(); httpclient.Code(err) != "changed_meanwhile" {
			break
		}
	}
	return changed, err
}

func limitReset(a *shell.App) *cobra.Command {
	var key string
	c := a.Command(shell.Spec{
		Use: "reset LIMIT", Short: "Return to the limit that flows declare",
		Calls: []httpapi.Entry{httpapi.ResetLimit, httpapi.GetLimit},
		Do: func(r *shell.Request) error {
			if _, err := shell.Call(r, httpapi.GetLimit, limitInput(r, key)); err != nil {
				return err
			}
			_, err := shell.Call(r, httpapi.ResetLimit, limitInput(r, key))
			return r.PrintDone("reset", r.Args[0], err)
		},
	})
	declareKey(c, &key, "limit")
	return c
}

func Budget(a *shell.App) *cobra.Command {
	return a.Group("budget", "Show and change budgets",
		budgetList(a), budgetShow(a), budgetUse(a), budgetHistory(a), budgetSet(a), budgetReset(a),
		budgetDelete(a))
}

var budgetView = output.View[fabrictype.Budget]{
	Name: func(b fabrictype.Budget) string { return b.Name },
	Columns: []output.Column[fabrictype.Budget]{
		{Name: "budget", Text: func(b fabrictype.Budget) string { return b.Name }},
		{Name: "key", Text: func(b fabrictype.Budget) string { return b.Key }},
		{Name: "flow", Text: func(b fabrictype.Budget) string { return b.Flow }},
		{Name: "run", Text: func(b fabrictype.Budget) string { return b.Run }},
		{Name: "spent", Text: amountsText},
		{Name: "used up", Text: func(b fabrictype.Budget) string { return b.UsedUp }},
		{Name: "resets", Text: func(b fabrictype.Budget) string { return output.At(b.ResetsAt) }},
		{Name: "effect", Text: func(b fabrictype.Budget) string { return b.Effect }},
		{Name: "breaches", Wide: true, Text: func(b fabrictype.Budget) string { return strconv.Itoa(b.Breaches) }},
		{Name: "set by", Wide: true, Text: func(b fabrictype.Budget) string { return setBy(b.Set) }},
	},
}

// amountsText shows the amounts of each dimension, such as "usd 3+1/10": spent + reserved / hard limit.
func amountsText(b fabrictype.Budget) string {
	parts := make([]string, len(b.Amounts))
	for i, amount := range b.Amounts {
		parts[i] = fmt.Sprintf("%s %d", amount.Dimension, amount.Spent)
		if amount.Reserved > 0 {
			parts[i] += fmt.Sprintf("+%d", amount.Reserved)
		}
		if amount.Hard > 0 {
			parts[i] += fmt.Sprintf("/%d", amount.Hard)
		}
	}
	return strings.Join(parts, ", ")
}

func budgetList(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "list", Short: "Show the budgets", Calls: []httpapi.Entry{httpapi.ListBudgets}, Columns: budgetView.ColumnNames(),
		Do: func(r *shell.Request) error {
			budgets, err := shell.Call(r, httpapi.ListBudgets, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.Out, budgetView, budgets.Items)
		},
	})
}

// budgetFlags name a budget.
type budgetFlags struct{ key, flow, run string }

func declareBudget(a *shell.App, c *cobra.Command, f *budgetFlags) {
	declareKey(c, &f.key, "budget")
	c.Flags().StringVar(&f.flow, "flow", "", "the flow that owns it")
	c.Flags().StringVar(&f.run, "run", "", "the run that owns it")
	a.CompleteFlag(c, "flow", "FLOW")
}

func (f *budgetFlags) name(r *shell.Request) fabrictype.BudgetName {
	return fabrictype.BudgetName{Name: r.Args[0], Key: f.key, Flow: f.flow, Run: f.run}
}

func (f *budgetFlags) input(r *shell.Request) httpapi.BudgetInput {
	return httpapi.NameBudget(f.name(r))
}

func printBudget(r *shell.Request, b *fabrictype.Budget, err error) error {
	if err != nil {
		return err
	}
	if !r.Out.ForPeople() {
		return r.Out.Value(b, b.Name, "")
	}
	return output.List(r.Out, budgetView, []fabrictype.Budget{*b})
}

func budgetShow(a *shell.App) *cobra.Command {
	f := &budgetFlags{}
	c := a.Command(shell.Spec{
		Use: "show BUDGET", Short: "Show a budget", Calls: []httpapi.Entry{httpapi.GetBudget},
		Columns: budgetView.ColumnNames(),
		Do: func(r *shell.Request) error {
			b, err := shell.Call(r, httpapi.GetBudget, f.input(r))
			return printBudget(r, b, err)
		},
	})
	declareBudget(a, c, f)
	return c
}

// budgetChange has the changes of a budget that flags request.
type budgetChange struct {
	hard, soft map[string]int64
	resetEvery time.Duration
	effect     string
}

// of returns the settings of a budget with the changes of the flags.
func (b *budgetChange) of(present *fabrictype.Budget, given func(flag string) bool) (body api.BudgetSettings) {
	body.Hard, body.Soft = map[string]int64{}, map[string]int64{}
	for _, amount := range present.Amounts {
		body.Hard[amount.Dimension] = amount.Hard // 0 for a dimension that is counted only
		if amount.Soft > 0 {
			body.Soft[amount.Dimension] = amount.Soft
		}
	}
	maps.Copy(body.Hard, b.hard)
	maps.Copy(body.Soft, b.soft)
	body.ResetEvery, body.Effect = present.ResetEvery, present.Effect
	if given("reset-every") {
		body.ResetEvery = fabrictype.Duration{Duration: b.resetEvery}
	}
	if given("effect") {
		body.Effect = b.effect
	}
	return body
}

func budgetSet(a *shell.App) *cobra.Command {
	f, change := &budgetFlags{}, &budgetChange{}
	var c *cobra.Command
	c = a.Command(shell.Spec{
		Use: "set BUDGET", Short: "Set the limits of a budget",
		Long: "Sets the limits, the interval and the effect of a budget, overriding the declarations of flows. " +
			"Settings without a flag stay unchanged. --hard DIMENSION=0 and --soft DIMENSION=0 remove that limit, " +
			"--reset-every 0 the resets. A missing budget is created with the given settings.",
		Example: "  flowfabric budget set llm --hard usd=100 --soft usd=80 --reset-every 24h",
		Calls:   []httpapi.Entry{httpapi.SetBudget, httpapi.GetBudget},
		Columns: budgetView.ColumnNames(),
		Check: func([]string) error {
			given := c.Flags().Changed
			if !given("hard") && !given("soft") && !given("reset-every") && !given("effect") {
				return errors.New("takes --hard or --soft, --reset-every, --effect")
			}
			if given("effect") && change.effect == "" {
				return errors.New("--effect: must be fail, block or cancel")
			}
			return shell.NotNegative("reset-every", change.resetEvery)
		},
		Do: func(r *shell.Request) error {
			b, err := onPresent(func() (*fabrictype.Budget, error) {
				in := httpapi.SetBudgetInput{BudgetInput: f.input(r)}
				present, tag, err := r.Session.Client.GetBudget(r, f.name(r))
				switch {
				case httpclient.Code(err) == "budget_not_found":
					if len(change.hard)+len(change.soft) == 0 {
						return nil, err
					}
					present = &fabrictype.Budget{}
					r.Note("The budget did not exist: it is created with these settings, not with those in flows.")
				case err != nil:
					return nil, err
				}
				in.IfMatch, in.Body = tag, change.of(present, c.Flags().Changed)
				return shell.Call(r, httpapi.SetBudget, in)
			})
			return printBudget(r, b, err)
		},
	})
	declareBudget(a, c, f)
	c.Flags().StringToInt64Var(&change.hard, "hard", nil,
		"the hard limit of each dimension, DIMENSION=AMOUNT with commas; 0 is none")
	c.Flags().StringToInt64Var(&change.soft, "soft", nil, "the soft limit of each dimension; 0 is none")
	cliflag.DeclareDuration(c.Flags(), &change.resetEvery, "reset-every", 0,
		"the interval at which the spent amounts return to 0; 0 means never")
	c.Flags().StringVar(&change.effect, "effect", "",
		"the effect of a hard limit on nodes: fail, block or cancel (the run); fail for a new budget")
	return c
}

func budgetReset(a *shell.App) *cobra.Command {
	f := &budgetFlags{}
	c := a.Command(shell.Spec{
		Use: "reset BUDGET", Short: "Set the spent amounts of a budget to 0", Calls: []httpapi.Entry{httpapi.ResetBudget},
		Do: func(r *shell.Request) error {
			_, err := shell.Call(r, httpapi.ResetBudget, f.input(r))
			return r.PrintDone("reset", r.Args[0], err)
		},
	})
	declareBudget(a, c, f)
	return c
}

func budgetDelete(a *shell.App) *cobra.Command {
	f := &budgetFlags{}
	c := a.Command(shell.Spec{
		Use: "delete BUDGET", Short: "Delete a budget", Calls: []httpapi.Entry{httpapi.DeleteBudget, httpapi.GetBudget},
		Do: func(r *shell.Request) error {
			look := func() error { _, err := shell.Call(r, httpapi.GetBudget, f.input(r)); return err }
			return r.Destroy("delete budget "+r.Args[0], look, func() error {
				if err := look(); err != nil { // the API deletes a missing object without an error
					return err
				}
				_, err := shell.Call(r, httpapi.DeleteBudget, f.input(r))
				return r.PrintDone("deleted", r.Args[0], err)
			})
		},
	})
	declareBudget(a, c, f)
	return c
}

var budgetSampleView = output.View[api.BudgetSample]{
	Name: func(b api.BudgetSample) string { return output.At(b.At) },
	Columns: []output.Column[api.BudgetSample]{
		{Name: "at", Text: func(b api.BudgetSample) string { return output.At(b.At) }},
		{Name: "spent", Text: func(b api.BudgetSample) string { return amountsOf(b.Spent) }},
	},
}

// amountsOf returns amounts by dimension, such as "tokens 10, usd 3".
func amountsOf(amounts map[string]int64) string {
	var parts []string
	for dimension, n := range amounts {
		parts = append(parts, fmt.Sprintf("%s %d", dimension, n))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

func budgetHistory(a *shell.App) *cobra.Command {
	f := &budgetFlags{}
	c := a.Command(shell.Spec{
		Use: "history BUDGET", Short: "Show how much was spent of a budget during the last hour",
		Long:  "Shows how much was spent of a budget during the last hour." + historyNote,
		Calls: []httpapi.Entry{httpapi.GetBudgetHistory}, Columns: budgetSampleView.ColumnNames(),
		Do: func(r *shell.Request) error {
			h, err := shell.Call(r, httpapi.GetBudgetHistory, f.input(r))
			if err != nil {
				return err
			}
			return output.List(r.Out, budgetSampleView, h.Samples)
		},
	})
	declareBudget(a, c, f)
	return c
}

// placeUse is a node that holds a place of a limit, or waits for one.
type placeUse struct {
	api.PlaceUse
	State string `json:"state"`
}

var useView = output.View[placeUse]{
	Name: func(p placeUse) string { return p.Execution },
	Columns: []output.Column[placeUse]{
		{Name: "state", Text: func(p placeUse) string { return p.State }},
		{Name: "node", Text: func(p placeUse) string { return nodeOfRun(p.NodeOfRun) }},
		{Name: "since", Text: func(p placeUse) string { return output.At(p.Since) }},
		{Name: "priority", Text: func(p placeUse) string { return strconv.Itoa(p.Priority) }},
		{Name: "execution", Wide: true, Text: func(p placeUse) string { return p.Execution }},
	},
}

func limitUse(a *shell.App) *cobra.Command {
	var key string
	c := a.Command(shell.Spec{
		Use: "use LIMIT", Short: "Show which nodes hold places of a limit, and which wait",
		Calls: []httpapi.Entry{httpapi.GetLimitUse}, Columns: useView.ColumnNames(),
		Do: func(r *shell.Request) error {
			use, err := shell.Call(r, httpapi.GetLimitUse, httpapi.LimitUseInput{LimitInput: limitInput(r, key)})
			if err != nil {
				return err
			}
			var list []placeUse
			for _, p := range use.Holders {
				list = append(list, placeUse{PlaceUse: p, State: "holds"})
			}
			for _, p := range use.Pools {
				of := api.PlaceUse{NodeOfRun: api.NodeOfRun{Execution: "worker " + p.Worker}, Since: p.Since}
				list = append(list, placeUse{PlaceUse: of, State: "pool of " + strconv.Itoa(p.Places)})
			}
			for _, p := range use.Queue {
				list = append(list, placeUse{PlaceUse: p, State: "waits"})
			}
			return output.List(r.Out, useView, list)
		},
	})
	declareKey(c, &key, "limit")
	return c
}

// budgetUser is a node that has reserved a part of a budget, or waits for it.
type budgetUser struct {
	api.NodeOfRun
	State     string `json:"state"`
	Amount    int64  `json:"amount,omitempty"`
	Dimension string `json:"dimension,omitempty"`
}

var budgetUserView = output.View[budgetUser]{
	Name: func(u budgetUser) string { return u.Execution },
	Columns: []output.Column[budgetUser]{
		{Name: "state", Text: func(u budgetUser) string { return u.State }},
		{Name: "node", Text: func(u budgetUser) string { return nodeOfRun(u.NodeOfRun) }},
		{Name: "amount", Text: func(u budgetUser) string {
			if u.Dimension == "" {
				return ""
			}
			return strconv.FormatInt(u.Amount, 10) + " " + u.Dimension
		}},
		{Name: "execution", Wide: true, Text: func(u budgetUser) string { return u.Execution }},
	},
}

func budgetUse(a *shell.App) *cobra.Command {
	f := &budgetFlags{}
	c := a.Command(shell.Spec{
		Use: "use BUDGET", Short: "Show which nodes have reserved parts of a budget, and which wait for it",
		Calls: []httpapi.Entry{httpapi.GetBudgetUse}, Columns: budgetUserView.ColumnNames(),
		Do: func(r *shell.Request) error {
			use, err := shell.Call(r, httpapi.GetBudgetUse, httpapi.BudgetUseInput{BudgetInput: f.input(r)})
			if err != nil {
				return err
			}
			var list []budgetUser
			for _, one := range use.Reserved {
				list = append(list, budgetUser{
					NodeOfRun: one.NodeOfRun, State: "reserves", Amount: one.Amount, Dimension: one.Dimension,
				})
			}
			for _, one := range use.Queue {
				list = append(list, budgetUser{NodeOfRun: one.NodeOfRun, State: "waits"})
			}
			return output.List(r.Out, budgetUserView, list)
		},
	})
	declareBudget(a, c, f)
	return c
}
