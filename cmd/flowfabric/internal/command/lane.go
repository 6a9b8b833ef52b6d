package command

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func (a *App) laneCommand() *cobra.Command {
	return a.group("lane", "Show and pause lanes", a.laneList(), a.laneShow(), a.laneQueue(), a.laneHistory(),
		a.lanePauses(), a.lanePause(), a.laneResume())
}

var laneView = output.View[fabrictype.Lane]{
	Name: func(l fabrictype.Lane) string { return l.Name },
	Columns: []output.Column[fabrictype.Lane]{
		{Name: "lane", Text: func(l fabrictype.Lane) string { return l.Name }},
		{Name: "eligible", Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Eligible) }},
		{Name: "active", Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Active) }},
		{Name: "delayed", Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Delayed) }},
		{Name: "suspended", Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Suspended) }},
		{
			Name: "waiting for upstreams", Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Blocked.Dependencies) },
		},
		{Name: "otherwise blocked", Text: func(l fabrictype.Lane) string {
			return strconv.Itoa(l.Blocked.Budget + l.Blocked.Quota + l.Blocked.Route + l.Blocked.Operator)
		}},
		{Name: "by budget", Wide: true, Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Blocked.Budget) }},
		{Name: "by limit", Wide: true, Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Blocked.Quota) }},
		{
			Name: "without worker", Wide: true, Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Blocked.Route) },
		},
		{
			Name: "by operator", Wide: true, Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Blocked.Operator) },
		},
		{Name: "oldest", Text: func(l fabrictype.Lane) string { return output.At(l.Oldest) }},
		{Name: "paused", Text: func(l fabrictype.Lane) string {
			if l.PausedAt.IsZero() {
				return ""
			}
			return "since " + output.At(l.PausedAt) + " by " + l.PausedBy + " " + l.PauseReason
		}},
	},
}

func (a *App) laneList() *cobra.Command {
	return a.command(spec{
		use: "list", short: "Show the executions in each lane", calls: []httpapi.Entry{httpapi.ListLanes},
		columns: laneView.ColumnNames(),
		do: func(r *request) error {
			lanes, err := call(r, httpapi.ListLanes, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.out, laneView, lanes.Items)
		},
	})
}

func (a *App) laneShow() *cobra.Command {
	return a.command(spec{
		use: "show LANE", short: "Show the executions in a lane", calls: []httpapi.Entry{httpapi.ListLanes},
		columns: laneView.ColumnNames(),
		do: func(r *request) error {
			lanes, err := call(r, httpapi.ListLanes, httpapi.Empty{})
			if err != nil {
				return err
			}
			for _, l := range lanes.Items {
				if l.Name != r.args[0] {
					continue
				}
				if !r.out.ForPeople() {
					return r.out.Value(l, l.Name, "")
				}
				return output.List(r.out, laneView, []fabrictype.Lane{l})
			}
			return &api.Problem{Status: 404, Code: "lane_not_found",
				Detail: "lane " + strconv.Quote(r.args[0]) + " has never had work"}
		},
	})
}

var pauseView = output.View[fabrictype.Pause]{
	Name: func(p fabrictype.Pause) string { return pauseKind(p) + " " + p.Lane + p.Activity },
	Columns: []output.Column[fabrictype.Pause]{
		{Name: "kind", Text: pauseKind},
		{Name: "name", Text: func(p fabrictype.Pause) string { return p.Lane + p.Activity }},
		{Name: "since", Text: func(p fabrictype.Pause) string { return output.At(p.Since) }},
		{Name: "by", Text: func(p fabrictype.Pause) string { return p.By }},
		{Name: "reason", Text: func(p fabrictype.Pause) string { return p.Reason }},
	},
}

func pauseKind(p fabrictype.Pause) string {
	if p.Activity != "" {
		return "activity"
	}
	return "lane"
}

func (a *App) lanePauses() *cobra.Command {
	return a.command(spec{
		use: "pauses", short: "Show the paused lanes and activities", calls: []httpapi.Entry{httpapi.ListPauses},
		columns: pauseView.ColumnNames(),
		do: func(r *request) error {
			pauses, err := call(r, httpapi.ListPauses, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.out, pauseView, pauses.Items)
		},
	})
}

func (a *App) lanePause() *cobra.Command {
	var reason string
	c := a.command(spec{
		use: "pause LANE", short: "Keep workers from claiming from a lane", calls: []httpapi.Entry{httpapi.PauseLane},
		do: func(r *request) error {
			in := httpapi.LaneReasonInput{Lane: r.args[0]}
			in.Body.Reason = reason
			_, err := call(r, httpapi.PauseLane, in)
			return r.done("paused", r.args[0], err)
		},
	})
	declareReason(c, &reason)
	return c
}

func (a *App) laneResume() *cobra.Command {
	return a.command(spec{
		use: "resume LANE", short: "End the pause of a lane", calls: []httpapi.Entry{httpapi.ResumeLane},
		do: func(r *request) error {
			_, err := call(r, httpapi.ResumeLane, httpapi.LaneInput{Lane: r.args[0]})
			return r.done("resumed", r.args[0], err)
		},
	})
}

func (a *App) activityCommand() *cobra.Command {
	return a.group("activity", "Pause activities", a.activityPause(), a.activityResume())
}

func (a *App) activityPause() *cobra.Command {
	var reason string
	c := a.command(spec{
		use: "pause ACTIVITY", short: "Keep an activity from starting", calls: []httpapi.Entry{httpapi.PauseActivity},
		do: func(r *request) error {
			in := httpapi.ActivityReasonInput{Activity: r.args[0]}
			in.Body.Reason = reason
			_, err := call(r, httpapi.PauseActivity, in)
			return r.done("paused", r.args[0], err)
		},
	})
	declareReason(c, &reason)
	return c
}

func (a *App) activityResume() *cobra.Command {
	return a.command(spec{
		use: "resume ACTIVITY", short: "End the pause of an activity", calls: []httpapi.Entry{httpapi.ResumeActivity},
		do: func(r *request) error {
			_, err := call(r, httpapi.ResumeActivity, httpapi.ActivityInput{Activity: r.args[0]})
			return r.done("resumed", r.args[0], err)
		},
	})
}

func (a *App) workerCommand() *cobra.Command {
	return a.group("worker", "Show and drain workers", a.workerList(), a.workerDrain())
}

var workerView = output.View[fabrictype.Worker]{
	Name: func(w fabrictype.Worker) string { return w.Instance },
	Columns: []output.Column[fabrictype.Worker]{
		{Name: "instance", Text: func(w fabrictype.Worker) string { return w.Instance }},
		{Name: "host", Text: func(w fabrictype.Worker) string { return w.Host }},
		{Name: "pid", Text: func(w fabrictype.Worker) string { return strconv.Itoa(w.PID) }},
		{Name: "build", Text: func(w fabrictype.Worker) string { return buildText(w.Build) }},
		{Name: "state", Text: workerState},
		{
			Name: "used", Text: func(w fabrictype.Worker) string { return strconv.Itoa(w.Used) + "/" + strconv.Itoa(w.Slots) },
		},
		{Name: "lanes", Text: func(w fabrictype.Worker) string { return strings.Join(w.Lanes, ",") }},
		{Name: "activities", Text: func(w fabrictype.Worker) string { return strings.Join(w.Activities, ",") }},
		{Name: "capabilities", Wide: true, Text: func(w fabrictype.Worker) string {
			return strings.Join(w.Capabilities, ",")
		}},
		{Name: "since", Text: func(w fabrictype.Worker) string { return output.At(w.Since) }},
		{Name: "reported", Wide: true, Text: func(w fabrictype.Worker) string { return output.At(w.ReportedAt) }},
	},
}

func workerState(w fabrictype.Worker) string {
	if w.State == fabrictype.WorkerRunning && !w.DrainRequestedAt.IsZero() {
		return "asked to drain"
	}
	return string(w.State)
}

// serves reports whether a list has a name; an empty name is in every list.
func serves(list []string, name string) bool {
	for _, has := range list {
		if has == name {
			return true
		}
	}
	return name == ""
}

func (a *App) workerList() *cobra.Command {
	var lane, activity string
	c := a.command(spec{
		use: "list", short: "Show the live workers with their activities", calls: []httpapi.Entry{httpapi.ListWorkers},
		columns: workerView.ColumnNames(),
		do: func(r *request) error {
			all, err := call(r, httpapi.ListWorkers, httpapi.Empty{})
			if err != nil {
				return err
			}
			var workers []fabrictype.Worker
			for _, w := range all.Items {
				if serves(w.Lanes, lane) && serves(w.Activities, activity) {
					workers = append(workers, w)
				}
			}
			return output.List(r.out, workerView, workers)
		},
	})
	c.Flags().StringVar(&lane, "lane", "", "only workers that serve this lane")
	a.completeFlag(c, "lane", "LANE")
	c.Flags().StringVar(&activity, "activity", "", "only workers that serve this activity")
	a.completeFlag(c, "activity", "ACTIVITY")
	return c
}

func (a *App) workerDrain() *cobra.Command {
	return a.command(spec{
		use: "drain WORKER", short: "Let a worker take no more work", calls: []httpapi.Entry{httpapi.DrainWorker},
		do: func(r *request) error {
			look := func() error {
				workers, err := call(r, httpapi.ListWorkers, httpapi.Empty{})
				if err != nil {
					return err
				}
				for _, w := range workers.Items {
					if w.Instance == r.args[0] {
						return nil
					}
				}
				return &api.Problem{Status: 404, Code: "worker_not_found",
					Detail: "no live worker has the instance " + strconv.Quote(r.args[0])}
			}
			return r.destroy("drain worker "+r.args[0], look, func() error {
				_, err := call(r, httpapi.DrainWorker, httpapi.WorkerInput{Worker: r.args[0]})
				return r.done("draining", r.args[0], err)
			})
		},
	})
}
