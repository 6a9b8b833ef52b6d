package api

import (
	"time"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// Operations on all runs and on the deployment.
var (
	CountRuns = call[CountRunsInput, fabrictype.Page[fabrictype.RunCount]](Operation{
		Name: "count-runs", Group: "observe", Method: "GET", Path: "/counts",
		Right: View, Effect: Reads, Bound: true, Query: QueryRuns,
		Summary: "Count runs by flow, state and hour",
	})
	FollowFeed = stream[FollowFeedInput, fabrictype.FeedEvent](Operation{
		Name: "follow-feed", Group: "observe", Method: "GET", Path: "/feed", Right: View, Effect: Reads, Bound: true,
		Summary: "Follow the events of all runs",
	})
	ListAudit = call[ListAuditInput, fabrictype.Page[fabrictype.AuditEntry]](Operation{
		Name: "list-audit", Group: "observe", Method: "GET", Path: "/audit", Right: View, Effect: Reads,
		Summary: "List changes and their authors, the latest first",
	})
	Inspect = call[Empty, fabrictype.Inspection](Operation{
		Name: "inspect", Group: "observe", Method: "GET", Path: "/inspection", Right: View, Effect: Reads,
		Summary: "Find problems that can lose or stop work",
	})
	ListKeeperTasks = call[Empty, fabrictype.Page[KeeperTask]](Operation{
		Name: "list-keeper-tasks", Group: "observe", Method: "GET", Path: "/keeper-tasks", Right: View, Effect: Reads,
		Summary: "List the tasks of keepers",
	})
	RunKeeperTask = call[KeeperTaskInput, KeeperTaskReport](Operation{
		Name: "run-keeper-task", Group: "observe", Method: "POST", Path: "/keeper-tasks/{task}/run",
		Right: Administer, Effect: Changes,
		Summary: "Run a task of keepers now",
	})
)

func observeOperations() []Entry {
	return []Entry{CountRuns, ExplainRuns, FollowFeed, ListAudit, Inspect, ListKeeperTasks, RunKeeperTask}
}

// CountRunsInput selects the runs to count and the groups.
type CountRunsInput struct {
	By    []string `query:"by" enum:"flow,state,hour" doc:"Fields to group by; absent for one count."`
	Query Values   `json:"-"`
}

// FollowFeedInput selects events.
type FollowFeedInput struct {
	Follow
	Flow     string   `query:"flow" doc:"Only runs of this flow."`
	Kinds    []string `query:"kind" doc:"Only events of these kinds."`
	Children bool     `query:"children" doc:"With child runs of maps and sub-flows."`
}

// ListAuditInput selects entries.
type ListAuditInput struct {
	Paging
	Actor  string    `query:"actor"`
	Action string    `query:"action"`
	Name   string    `query:"name" doc:"Name of the changed object."`
	From   time.Time `query:"from"`
	Before time.Time `query:"before"`
}

// KeeperTask is one kind of a keeper's work.
type KeeperTask struct {
	Name    string              `json:"name"`
	Summary string              `json:"summary"`
	Every   fabrictype.Duration `json:"every" doc:"Longest time between two steps in a partition."`
	// Lag is there for tasks that work by time.
	Lag *KeeperLag `json:"lag,omitempty"`
}

// KeeperLag is how late keepers are with a task: for how long its oldest work has been due.
type KeeperLag struct {
	Behind  fabrictype.Duration   `json:"behind"`
	Minutes []fabrictype.Duration `json:"minutes" doc:"The worst of each minute, the latest last."`
}

// KeeperTaskInput names the task that an operation is about.
type KeeperTaskInput struct {
	Task string `path:"task" doc:"Name of the task."`
}

// KeeperTaskReport is the result of a keeper task.
type KeeperTaskReport struct {
	Task       string              `json:"task"`
	Partitions int                 `json:"partitions"`
	Steps      int                 `json:"steps"`
	Done       int64               `json:"done"`
	Lag        fabrictype.Duration `json:"lag"`
	Remaining  int                 `json:"remaining"`
	Repaired   map[string]int64    `json:"repaired,omitempty"`
	Took       fabrictype.Duration `json:"took"`
}
