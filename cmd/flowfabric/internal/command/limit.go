package command

import (
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/httpclient"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func (a *App) limitCommand() *cobra.Command {
	return a.group("limit", "Show and change limits", a.limitList(), a.limitShow(), a.limitUse(), a.limitSet(),
		a.limitReset())
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
		{Name: "at once", Text: func(l fabrictype.Limit) string { return numberText(l.AtOnce) }},
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

func (a *App) limitList() *cobra.Command {
	return a.command(spec{
		use: "list", short: "Show the limits", calls: []httpapi.Entry{httpapi.ListLimits}, columns: limitView.ColumnNames(),
		do: func(r *request) error {
			limits, err := call(r, httpapi.ListLimits, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.out, limitView, limits.Items)
		},
	})
}

func declareKey(c *cobra.Command, key *string, what string) {
	c.Flags().StringVar(key, "key", "", "the key of a "+what+" with keys")
}

func (r *request) limit(key string) httpapi.LimitInput {
	return httpapi.LimitInput{Limit: r.args[0], Key: key}
}

func printLimit(r *request, l *fabrictype.Limit, err error) error {
	if err != nil {
		return err
	}
	if !r.out.ForPeople() {
		return r.out.Value(l, l.Name, "")
	}
	return output.List(r.out, limitView, []fabrictype.Limit{*l})
}

func (a *App) limitShow() *cobra.Command {
	var key string
	c := a.command(spec{
		use: "show LIMIT", short: "Show a limit", calls: []httpapi.Entry{httpapi.GetLimit}, columns: limitView.ColumnNames(),
		do: func(r *request) error {
			l, err := call(r, httpapi.GetLimit, r.limit(key))
			return printLimit(r, l, err)
		},
	})
	declareKey(c, &key, "limit")
	return c
}

func (a *App) limitSet() *cobra.Command {
	var key string
	var atMost, atOnce int
	var per time.Duration
	var c *cobra.Command
	c = a.command(spec{
		use: "set LIMIT", short: "Set a limit, overriding the declarations of flows",
		long: "Sets a limit, overriding the declarations of flows. Parts without a flag stay unchanged; --at-most 0 " +
			"and --at-once 0 remove that part.",
		calls:   []httpapi.Entry{httpapi.SetLimit, httpapi.GetLimit},
		example: "  flowfabric limit set crm --at-most 10 --per 1s --at-once 3",
		columns: limitView.ColumnNames(),
		check: func([]string) error {
			given := c.Flags().Changed
			switch {
			case !given("at-most") && !given("per") && !given("at-once"):
				return errors.New("takes --at-most with --per, --at-once, or both")
			case (atMost != 0) != (per != 0):
				return errors.New("--at-most and --per belong together")
			}
			return errors.Join(notNegative("at-most", atMost), notNegative("at-once", atOnce), notNegative("per", per))
		},
		do: func(r *request) error {
			l, err := onPresent(func() (*fabrictype.Limit, error) {
				in := httpapi.SetLimitInput{LimitInput: r.limit(key)}
				present, tag, err := r.session.Client.GetLimit(r, in.Limit, in.Key)
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
					return nil, usage("limit set: %s would have no part left: limit reset returns to the declarations "+
						"of flows", r.args[0])
				}
				return call(r, httpapi.SetLimit, in)
			})
			return printLimit(r, l, err)
		},
	})
	declareKey(c, &key, "limit")
	c.Flags().IntVar(&atMost, "at-most", 0, "the maximum of starts within --per; 0 means no maximum")
	c.Flags().DurationVar(&per, "per", 0, "the time of --at-most")
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

func (a *App) limitReset() *cobra.Command {
	var key string
	c := a.command(spec{
		use: "reset LIMIT", short: "Return to the limit that flows declare",
		calls: []httpapi.Entry{httpapi.ResetLimit, httpapi.GetLimit},
		do: func(r *request) error {
			if _, err := call(r, httpapi.GetLimit, r.limit(key)); err != nil {
				return err
			}
			_, err := call(r, httpapi.ResetLimit, r.limit(key))
			return r.done("reset", r.args[0], err)
		},
	})
	declareKey(c, &key, "limit")
	return c
}

func (a *App) budgetCommand() *cobra.Command {
	return a.group("budget", "Show and change budgets",
		a.budgetList(), a.budgetShow(), a.budgetUse(), a.budgetHistory(), a.budgetSet(), a.budgetReset(),
		a.budgetDelete())
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

func (a *App) budgetList() *cobra.Command {
	return a.command(spec{
		use: "list", short: "Show the budgets", calls: []httpapi.Entry{httpapi.ListBudgets}, columns: budgetView.ColumnNames(),
		do: func(r *request) error {
			budgets, err := call(r, httpapi.ListBudgets, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.out, budgetView, budgets.Items)
		},
	})
}

// budgetFlags name a budget.
type budgetFlags struct{ key, flow, run string }

func (a *App) declareBudget(c *cobra.Command, f *budgetFlags) {
	declareKey(c, &f.key, "budget")
	c.Flags().StringVar(&f.flow, "flow", "", "the flow that owns it")
	c.Flags().StringVar(&f.run, "run", "", "the run that owns it")
	a.completeFlag(c, "flow", "FLOW")
}

func (f *budgetFlags) name(r *request) fabrictype.BudgetName {
	return fabrictype.BudgetName{Name: r.args[0], Key: f.key, Flow: f.flow, Run: f.run}
}

func (f *budgetFlags) input(r *request) httpapi.BudgetInput {
	return httpapi.NameBudget(f.name(r))
}

func printBudget(r *request, b *fabrictype.Budget, err error) error {
	if err != nil {
		return err
	}
	if !r.out.ForPeople() {
		return r.out.Value(b, b.Name, "")
	}
	return output.List(r.out, budgetView, []fabrictype.Budget{*b})
}

func (a *App) budgetShow() *cobra.Command {
	f := &budgetFlags{}
	c := a.command(spec{
		use: "show BUDGET", short: "Show a budget", calls: []httpapi.Entry{httpapi.GetBudget},
		columns: budgetView.ColumnNames(),
		do: func(r *request) error {
			b, err := call(r, httpapi.GetBudget, f.input(r))
			return printBudget(r, b, err)
		},
	})
	a.declareBudget(c, f)
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

func (a *App) budgetSet() *cobra.Command {
	f, change := &budgetFlags{}, &budgetChange{}
	var c *cobra.Command
	c = a.command(spec{
		use: "set BUDGET", short: "Set the limits of a budget",
		long: "Sets the limits, the interval and the effect of a budget, overriding the declarations of flows. " +
			"Settings without a flag stay unchanged. --hard DIMENSION=0 and --soft DIMENSION=0 remove that limit, " +
			"--reset-every 0 the resets. A missing budget is created with the given settings.",
		example: "  flowfabric budget set llm --hard usd=100 --soft usd=80 --reset-every 24h",
		calls:   []httpapi.Entry{httpapi.SetBudget, httpapi.GetBudget},
		columns: budgetView.ColumnNames(),
		check: func([]string) error {
			given := c.Flags().Changed
			if !given("hard") && !given("soft") && !given("reset-every") && !given("effect") {
				return errors.New("takes --hard or --soft, --reset-every, --effect")
			}
			if given("effect") && change.effect == "" {
				return errors.New("--effect: must be fail, block or cancel")
			}
			return notNegative("reset-every", change.resetEvery)
		},
		do: func(r *request) error {
			b, err := onPresent(func() (*fabrictype.Budget, error) {
				in := httpapi.SetBudgetInput{BudgetInput: f.input(r)}
				present, tag, err := r.session.Client.GetBudget(r, f.name(r))
				switch {
				case httpclient.Code(err) == "budget_not_found":
					if len(change.hard)+len(change.soft) == 0 {
						return nil, err
					}
					present = &fabrictype.Budget{}
					r.note("The budget did not exist: it is created with these settings, not with those in flows.")
				case err != nil:
					return nil, err
				}
				in.IfMatch, in.Body = tag, change.of(present, c.Flags().Changed)
				return call(r, httpapi.SetBudget, in)
			})
			return printBudget(r, b, err)
		},
	})
	a.declareBudget(c, f)
	c.Flags().StringToInt64Var(&change.hard, "hard", nil,
		"the hard limit of each dimension, DIMENSION=AMOUNT with commas; 0 is none")
	c.Flags().StringToInt64Var(&change.soft, "soft", nil, "the soft limit of each dimension; 0 is none")
	c.Flags().DurationVar(&change.resetEvery, "reset-every", 0,
		"the interval at which the spent amounts return to 0; 0 means never")
	c.Flags().StringVar(&change.effect, "effect", "",
		"the effect of a hard limit on nodes: fail, block or cancel (the run); fail for a new budget")
	return c
}

func (a *App) budgetReset() *cobra.Command {
	f := &budgetFlags{}
	c := a.command(spec{
		use: "reset BUDGET", short: "Set the spent amounts of a budget to 0", calls: []httpapi.Entry{httpapi.ResetBudget},
		do: func(r *request) error {
			_, err := call(r, httpapi.ResetBudget, f.input(r))
			return r.done("reset", r.args[0], err)
		},
	})
	a.declareBudget(c, f)
	return c
}

func (a *App) budgetDelete() *cobra.Command {
	f := &budgetFlags{}
	c := a.command(spec{
		use: "delete BUDGET", short: "Delete a budget", calls: []httpapi.Entry{httpapi.DeleteBudget, httpapi.GetBudget},
		do: func(r *request) error {
			look := func() error { _, err := call(r, httpapi.GetBudget, f.input(r)); return err }
			return r.destroy("delete budget "+r.args[0], look, func() error {
				if err := look(); err != nil { // the API deletes a missing object without an error
					return err
				}
				_, err := call(r, httpapi.DeleteBudget, f.input(r))
				return r.done("deleted", r.args[0], err)
			})
		},
	})
	a.declareBudget(c, f)
	return c
}
