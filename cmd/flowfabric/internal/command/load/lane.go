package load

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/cliflag"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/shell"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/command/wording"
	"github.com/flowfabric/flowfabric-go/cmd/flowfabric/internal/output"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

func Lane(a *shell.App) *cobra.Command {
	return a.Group("lane", "Show and pause lanes", laneList(a), laneShow(a), laneQueue(a), laneHistory(a),
		lanePauses(a), lanePause(a), laneResume(a))
}

var laneView = output.View[fabrictype.Lane]{
	Name: func(l fabrictype.Lane) string { return l.Name },
	Columns: []output.Column[fabrictype.Lane]{
		{Name: "lane", Text: func(l fabrictype.Lane) string { return l.Name }},
		{Name: "health", Text: func(l fabrictype.Lane) string { return l.Health.State }},
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
		{Name: "programs", Wide: true, Text: func(l fabrictype.Lane) string { return strconv.Itoa(l.Health.Programs) }},
		{Name: "why", Text: func(l fabrictype.Lane) string { return l.Health.Reason }},
		{Name: "remedy", Wide: true, Text: func(l fabrictype.Lane) string { return l.Health.Remedy }},
	},
}

func laneList(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "list", Short: "Show the executions in each lane", Calls: []httpapi.Entry{httpapi.ListLanes},
		Columns: laneView.ColumnNames(),
		Do: func(r *shell.Request) error {
			lanes, err := shell.Call(r, httpapi.ListLanes, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.Out, laneView, lanes.Items)
		},
	})
}

func laneShow(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "show LANE", Short: "Show the executions in a lane", Calls: []httpapi.Entry{httpapi.ListLanes},
		Columns: laneView.ColumnNames(),
		Do: func(r *shell.Request) error {
			lanes, err := shell.Call(r, httpapi.ListLanes, httpapi.Empty{})
			if err != nil {
				return err
			}
			for _, l := range lanes.Items {
				if l.Name != r.Args[0] {
					continue
				}
				if !r.Out.ForPeople() {
					return r.Out.Value(l, l.Name, "")
				}
				return output.List(r.Out, laneView, []fabrictype.Lane{l})
			}
			return &api.Problem{Status: 404, Code: "lane_not_found",
				Detail: "lane " + strconv.Quote(r.Args[0]) + " has never had work"}
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

func lanePauses(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "pauses", Short: "Show the paused lanes and activities", Calls: []httpapi.Entry{httpapi.ListPauses},
		Columns: pauseView.ColumnNames(),
		Do: func(r *shell.Request) error {
			pauses, err := shell.Call(r, httpapi.ListPauses, httpapi.Empty{})
			if err != nil {
				return err
			}
			return output.List(r.Out, pauseView, pauses.Items)
		},
	})
}

func lanePause(a *shell.App) *cobra.Command {
	var reason string
	c := a.Command(shell.Spec{
		Use: "pause LANE", Short: "Keep workers from claiming from a lane", Calls: []httpapi.Entry{httpapi.PauseLane},
		Do: func(r *shell.Request) error {
			in := httpapi.LaneReasonInput{Lane: r.Args[0]}
			in.Body.Reason = reason
			_, err := shell.Call(r, httpapi.PauseLane, in)
			return r.PrintDone("paused", r.Args[0], err)
		},
	})
	cliflag.DeclareReason(c, &reason)
	return c
}

func laneResume(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "resume LANE", Short: "End the pause of a lane", Calls: []httpapi.Entry{httpapi.ResumeLane},
		Do: func(r *shell.Request) error {
			_, err := shell.Call(r, httpapi.ResumeLane, httpapi.LaneInput{Lane: r.Args[0]})
			return r.PrintDone("resumed", r.Args[0], err)
		},
	})
}

func Activity(a *shell.App) *cobra.Command {
	return a.Group("activity", "Pause activities", activityPause(a), activityResume(a))
}

func activityPause(a *shell.App) *cobra.Command {
	var reason string
	c := a.Command(shell.Spec{
		Use: "pause ACTIVITY", Short: "Keep an activity from starting", Calls: []httpapi.Entry{httpapi.PauseActivity},
		Do: func(r *shell.Request) error {
			in := httpapi.ActivityReasonInput{Activity: r.Args[0]}
			in.Body.Reason = reason
			_, err := shell.Call(r, httpapi.PauseActivity, in)
			return r.PrintDone("paused", r.Args[0], err)
		},
	})
	cliflag.DeclareReason(c, &reason)
	return c
}

func activityResume(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "resume ACTIVITY", Short: "End the pause of an activity", Calls: []httpapi.Entry{httpapi.ResumeActivity},
		Do: func(r *shell.Request) error {
			_, err := shell.Call(r, httpapi.ResumeActivity, httpapi.ActivityInput{Activity: r.Args[0]})
			return r.PrintDone("resumed", r.Args[0], err)
		},
	})
}

func Worker(a *shell.App) *cobra.Command {
	return a.Group("worker", "Show and drain workers", workerList(a), workerDrain(a))
}

var workerView = output.View[fabrictype.Worker]{
	Name: func(w fabrictype.Worker) string { return w.Instance },
	Columns: []output.Column[fabrictype.Worker]{
		{Name: "instance", Text: func(w fabrictype.Worker) string { return w.Instance }},
		{Name: "host", Text: func(w fabrictype.Worker) string { return w.Host }},
		{Name: "pid", Text: func(w fabrictype.Worker) string { return strconv.Itoa(w.PID) }},
		{Name: "build", Text: func(w fabrictype.Worker) string { return wording.Build(w.Build) }},
		{Name: "state", Text: wording.WorkerState},
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

// servesActivity reports whether a list has a name; an empty name is in every list.
func servesActivity(list []string, name string) bool {
	for _, has := range list {
		if has == name {
			return true
		}
	}
	return name == ""
}

// noteUnserved names the lanes whose work no worker takes; with a lane, only that one.
func noteUnserved(r *shell.Request, only string) error {
	lanes, err := shell.Call(r, httpapi.ListLanes, httpapi.Empty{})
	if err != nil {
		return err
	}
	for _, l := range lanes.Items {
		if l.Health.State == "unserved" && (only == "" || only == l.Name) {
			r.Note("lane %s: %s", output.Visible(l.Name), l.Health.Reason)
		}
	}
	return nil
}

func workerList(a *shell.App) *cobra.Command {
	var lane, activity string
	c := a.Command(shell.Spec{
		Use: "list", Short: "Show the live workers with their activities",
		Long: "Lists the live workers with their activities. For people, it then names on stderr the lanes whose work " +
			"no worker takes.",
		Calls:   []httpapi.Entry{httpapi.ListWorkers, httpapi.ListLanes},
		Columns: workerView.ColumnNames(),
		Do: func(r *shell.Request) error {
			all, err := shell.Call(r, httpapi.ListWorkers, httpapi.Empty{})
			if err != nil {
				return err
			}
			var workers []fabrictype.Worker
			for _, w := range all.Items {
				if servesActivity(w.Lanes, lane) && servesActivity(w.Activities, activity) {
					workers = append(workers, w)
				}
			}
			if err := output.List(r.Out, workerView, workers); err != nil || !r.Out.ForPeople() {
				return err
			}
			return noteUnserved(r, lane)
		},
	})
	c.Flags().StringVar(&lane, "lane", "", "only workers that serve this lane")
	a.CompleteFlag(c, "lane", "LANE")
	c.Flags().StringVar(&activity, "activity", "", "only workers that serve this activity")
	a.CompleteFlag(c, "activity", "ACTIVITY")
	return c
}

func workerDrain(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "drain WORKER", Short: "Let a worker take no more work", Calls: []httpapi.Entry{httpapi.DrainWorker},
		Do: func(r *shell.Request) error {
			look := func() error {
				workers, err := shell.Call(r, httpapi.ListWorkers, httpapi.Empty{})
				if err != nil {
					return err
				}
				for _, w := range workers.Items {
					if w.Instance == r.Args[0] {
						return nil
					}
				}
				return &api.Problem{Status: 404, Code: "worker_not_found",
					Detail: "no live worker has the instance " + strconv.Quote(r.Args[0])}
			}
			return r.Destroy("drain worker "+r.Args[0], look, func() error {
				_, err := shell.Call(r, httpapi.DrainWorker, httpapi.WorkerInput{Worker: r.Args[0]})
				return r.PrintDone("draining", r.Args[0], err)
			})
		},
	})
}

var laneSampleView = output.View[api.LaneSample]{
	Name: func(l api.LaneSample) string { return output.At(l.At) },
	Columns: []output.Column[api.LaneSample]{
		{Name: "at", Text: func(l api.LaneSample) string { return output.At(l.At) }},
		{Name: "ready", Text: func(l api.LaneSample) string { return strconv.Itoa(l.Eligible) }},
		{Name: "held back", Text: func(l api.LaneSample) string { return strconv.Itoa(l.HeldBack) }},
		{Name: "running", Text: func(l api.LaneSample) string { return strconv.Itoa(l.Active) }},
		{Name: "started", Text: func(l api.LaneSample) string { return strconv.FormatInt(l.Started, 10) }},
	},
}

// historyNote names the source of the history.
const historyNote = " A server has samples of the last hour, or since it began. Without a server there is one, of the " +
	"present."

func laneHistory(a *shell.App) *cobra.Command {
	return a.Command(shell.Spec{
		Use: "history LANE", Short: "Show the load of a lane during the last hour",
		Long:  "Shows the waiting and running executions of a lane during the last hour." + historyNote,
		Calls: []httpapi.Entry{httpapi.GetLaneHistory}, Columns: laneSampleView.ColumnNames(),
		Do: func(r *shell.Request) error {
			h, err := shell.Call(r, httpapi.GetLaneHistory, httpapi.LaneInput{Lane: r.Args[0]})
			if err != nil {
				return err
			}
			return output.List(r.Out, laneSampleView, h.Samples)
		},
	})
}

// queuedPlace is a place in the queue of a lane, with the partition that it is in.
type queuedPlace struct {
	api.QueuedPlace
	Partition int `json:"partition"`
	Place     int `json:"place"`
}

var queueView = output.View[queuedPlace]{
	Name: func(p queuedPlace) string { return p.Execution },
	Columns: []output.Column[queuedPlace]{
		{Name: "place", Text: func(p queuedPlace) string { return strconv.Itoa(p.Place) }},
		{Name: "node", Text: func(p queuedPlace) string { return nodeOfRun(p.NodeOfRun) }},
		{Name: "why", Text: func(p queuedPlace) string { return p.Rule }},
		{Name: "key", Text: func(p queuedPlace) string { return p.Key }},
		{Name: "priority", Text: func(p queuedPlace) string { return strconv.Itoa(p.Priority) }},
		{Name: "since", Text: func(p queuedPlace) string { return output.At(p.Since) }},
		{Name: "partition", Wide: true, Text: func(p queuedPlace) string { return strconv.Itoa(p.Partition) }},
		{Name: "execution", Wide: true, Text: func(p queuedPlace) string { return p.Execution }},
	},
}

// nodeOfRun names a node by flow, run and node, and anything else by its execution.
func nodeOfRun(n api.NodeOfRun) string {
	if n.Run == "" {
		return n.Execution
	}
	return n.Flow + " " + n.Run + " " + n.Node
}

func laneQueue(a *shell.App) *cobra.Command {
	var places int
	c := a.Command(shell.Spec{
		Use: "queue LANE", Short: "Show which nodes workers take next, and why", Calls: []httpapi.Entry{httpapi.GetLaneQueue},
		Columns: queueView.ColumnNames(),
		Do: func(r *shell.Request) error {
			q, err := shell.Call(r, httpapi.GetLaneQueue, httpapi.LaneQueueInput{
				LaneInput: httpapi.LaneInput{Lane: r.Args[0]}, Places: places,
			})
			if err != nil {
				return err
			}
			var list []queuedPlace
			for _, part := range q.Partitions {
				for i, n := range part.Next {
					list = append(list, queuedPlace{QueuedPlace: n, Partition: part.Partition, Place: i + 1})
				}
			}
			return output.List(r.Out, queueView, list)
		},
	})
	c.Flags().IntVar(&places, "places", 20, "most places of each partition, up to 50")
	return c
}
