package shell

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/profile"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
	"github.com/flowfabric/flowfabric-go/runtime"
)

const (
	// completionTime bounds how long the shell waits for the names of an engine or server.
	completionTime = 3 * time.Second
	// completions is how many runs are offered.
	completions = 100
)

// sources find the possible values of an argument, by its name. The arguments before it are given.
var sources = map[string]func(r *Request, before []string) ([]string, error){
	"FLOW": completeFlows,
	"RUN": func(r *Request, before []string) ([]string, error) {
		return completeRuns(r, before[len(before)-1])
	},
	"OTHER": func(r *Request, before []string) ([]string, error) { return completeRuns(r, before[0]) },
	"NODE": func(r *Request, before []string) ([]string, error) {
		in := httpapi.GetRunInput{RunName: httpapi.RunName{Flow: before[0], Run: before[1]}}
		run, err := Call(r, httpapi.GetRun, in)
		if err != nil {
			return nil, err
		}
		return wording.Names(run.Nodes, func(n fabrictype.Node) string { return n.Name }), nil
	},
	"SCHEDULE": func(r *Request, _ []string) ([]string, error) {
		return completeList(r, httpapi.ListSchedules, func(s fabrictype.Schedule) string { return s.Name })
	},
	"LANE": func(r *Request, _ []string) ([]string, error) {
		return completeList(r, httpapi.ListLanes, func(l fabrictype.Lane) string { return l.Name })
	},
	"LIMIT": func(r *Request, _ []string) ([]string, error) {
		return completeList(r, httpapi.ListLimits, func(l fabrictype.Limit) string { return l.Name })
	},
	"BUDGET": func(r *Request, _ []string) ([]string, error) {
		return completeList(r, httpapi.ListBudgets, func(b fabrictype.Budget) string { return b.Name })
	},
	"WORKER": func(r *Request, _ []string) ([]string, error) {
		return completeList(r, httpapi.ListWorkers, func(w fabrictype.Worker) string { return w.Instance })
	},
	"JOB": func(r *Request, _ []string) ([]string, error) {
		return completeList(r, httpapi.ListBulkJobs, func(j fabrictype.BulkJob) string { return j.ID })
	},
	"TASK": func(r *Request, _ []string) ([]string, error) {
		return completeList(r, httpapi.ListKeeperTasks, func(t api.KeeperTask) string { return t.Name })
	},
	"SESSION": func(r *Request, _ []string) ([]string, error) {
		sessions, err := Call(r, httpapi.ListSessions, httpapi.ListSessionsInput{Paging: api.Paging{Limit: 100}})
		if err != nil {
			return nil, err
		}
		return wording.Names(sessions.Items, func(s api.Session) string { return s.ID }), nil
	},
	"TOKEN": func(r *Request, _ []string) ([]string, error) {
		return completeList(r, httpapi.ListTokens, func(t api.Token) string { return t.Name })
	},
	"WAIT": func(r *Request, before []string) ([]string, error) {
		waits, err := Call(r, httpapi.ListRunWaits, httpapi.ListRunWaitsInput{
			RunName: httpapi.RunName{Flow: before[0], Run: before[1]},
		})
		if err != nil {
			return nil, err
		}
		return wording.Names(waits.Items, func(w fabrictype.Wait) string { return w.ID }), nil
	},
	"SEARCH": completeSearch,
	"ACTIVITY": func(r *Request, _ []string) ([]string, error) {
		workers, err := Call(r, httpapi.ListWorkers, httpapi.Empty{})
		if err != nil {
			return nil, err
		}
		var found []string
		for _, w := range workers.Items {
			found = append(found, w.Activities...)
		}
		return found, nil
	},
}

func completeList[T any](
	r *Request, op httpapi.Call[httpapi.Empty, fabrictype.Page[T]], name func(T) string,
) ([]string, error) {
	page, err := Call(r, op, httpapi.Empty{})
	if err != nil {
		return nil, err
	}
	return wording.Names(page.Items, name), nil
}

// completeFlows returns the published flows, and the flows of the last runs.
func completeFlows(r *Request, _ []string) ([]string, error) {
	flows, err := Call(r, httpapi.ListFlows, httpapi.Empty{})
	if err != nil {
		return nil, err
	}
	var found []string
	for _, f := range flows.Items {
		found = append(found, f.Name)
	}
	runs, err := Call(r, httpapi.ListRuns, httpapi.ListRunsInput{Paging: api.Paging{Limit: completions}})
	if err == nil { // without the runs, the published flows are better than nothing
		for _, run := range runs.Items {
			found = append(found, run.Flow)
		}
	}
	return found, nil
}

func completeRuns(r *Request, flow string) ([]string, error) {
	in := httpapi.ListRunsInput{Paging: api.Paging{Limit: completions}, Query: runtime.RunQuery{Flow: flow}.Values()}
	runs, err := Call(r, httpapi.ListRuns, in)
	if err != nil {
		return nil, err
	}
	return wording.Names(runs.Items, func(run fabrictype.Run) string { return run.Run }), nil
}

// completeSearch completes the last word of a search.
func completeSearch(r *Request, _ []string) ([]string, error) {
	at := strings.LastIndexByte(r.typed, ' ') + 1
	words, err := Call(r, httpapi.CompleteSearch, httpapi.CompleteSearchInput{Word: r.typed[at:]})
	if err != nil {
		return nil, err
	}
	return wording.Names(words.Items, func(word string) string { return r.typed[:at] + word }), nil
}

// complete completes the arguments of a command from the names in the engine or server. Failures complete nothing.
func (a *App) complete(use string) cobra.CompletionFunc {
	arguments := ArgumentNames(use)
	return func(c *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
		args = splitRun(use, args)
		if len(args) >= len(arguments) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		name := strings.Trim(arguments[len(args)], "[]…")
		return a.completeFrom(c, name, args, toComplete)
	}
}

// CompleteFlag completes a flag like an argument of that name.
func (a *App) CompleteFlag(c *cobra.Command, flag, name string) {
	Must(c.RegisterFlagCompletionFunc(flag,
		func(c *cobra.Command, args []string, toComplete string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return a.completeFrom(c, name, args, toComplete)
		}))
}

func (a *App) completeFrom(
	c *cobra.Command, name string, before []string, toComplete string,
) ([]cobra.Completion, cobra.ShellCompDirective) {
	source := sources[name]
	if source == nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	ctx, cancel := context.WithTimeout(c.Context(), completionTime)
	defer cancel()
	where, err := a.Reach(ctx)
	if err != nil || where.Check() != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	session, err := a.Open(ctx, where)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer session.Close()
	found, err := source(&Request{App: a, Context: ctx, Cmd: c, Session: session, typed: toComplete}, before)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var fitting []cobra.Completion
	seen := map[string]bool{}
	for _, text := range found {
		if strings.HasPrefix(text, toComplete) && !seen[text] {
			seen[text] = true
			fitting = append(fitting, text)
		}
	}
	return fitting, cobra.ShellCompDirectiveNoFileComp
}

func (a *App) CompleteProfiles(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	file, err := profile.Read(profile.Path(a.Env))
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return file.Names(), cobra.ShellCompDirectiveNoFileComp
}
