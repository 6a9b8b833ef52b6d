package why

import (
	"fmt"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/waitreason"
	"time"
)

// Reason says for programs why a node does not run. It is empty when the node runs or has ended. Later versions may add
// reasons, so a program should treat those it does not know like Other.
type Reason string

// A node waits for other nodes, runs or people.
const (
	// Upstreams: nodes that it depends on have not ended. Explanation.Names are those nodes.
	Upstreams fabrictype.WaitReason = "upstreams"
	// Join: its join is not decided. Need more of the upstreams in Names have to succeed.
	Join fabrictype.WaitReason = "join"
	// Settling: its upstreams have ended, and the engine carries out what follows.
	Settling fabrictype.WaitReason = "settling"
	// ChildRun: the run of a map or sub-flow node has not ended. Subject is the run, Key its flow.
	ChildRun fabrictype.WaitReason = "child_run"
	// Signals: Have of Need signals have come. Names are the names that count. Until is the timeout.
	Signals fabrictype.WaitReason = "signals"
	// Escalated: the time of the wait for signals was up, and the wait continues.
	Escalated fabrictype.WaitReason = "escalated"
)

// A node could start, but no worker takes it.
const (
	// Worker: no worker has had a free slot for it. Subject is the lane. Until is the timeout for the start.
	Worker fabrictype.WaitReason = "worker"
	// Unserved: no live worker serves the activity Subject on the lane Key. Detail is the worker instance that did
	// last, empty if none is known. Until is the timeout for the start.
	Unserved fabrictype.WaitReason = "unserved"
	// Unregistered: no worker that has looked at the node has registered the activity, which is Subject.
	Unregistered fabrictype.WaitReason = "unregistered"
	// Capability: no worker that has looked at the node offers the capabilities in Names.
	Capability fabrictype.WaitReason = "capability"
	// WorkerLost: the lease of the worker that ran it has ended, and no other worker has taken it over. Subject is the
	// worker instance.
	WorkerLost fabrictype.WaitReason = "worker_lost"
	// LeaseRevoked: an operator took it from its worker, and no other worker has taken it over.
	LeaseRevoked fabrictype.WaitReason = "lease_revoked"
)

// Something keeps a node from starting.
const (
	// LanePaused, ActivityPaused, RunPaused: Subject is what is paused, By who paused it, Detail the reason that was
	// given.
	LanePaused     fabrictype.WaitReason = "lane_paused"
	ActivityPaused fabrictype.WaitReason = "activity_paused"
	RunPaused      fabrictype.WaitReason = "run_paused"
	// Operator: a program has blocked the execution by the functions of the engine. Detail is its text.
	Operator fabrictype.WaitReason = "operator"
	// Limit: the limit Subject with the key Key has no place: Have of Need are taken.
	Limit fabrictype.WaitReason = "limit"
	// RateWindow: as many as the limit Subject allows within its window have started. Until is when it has room.
	RateWindow fabrictype.WaitReason = "rate_window"
	// Budget: the budget Subject is exhausted. Until is its next reset.
	Budget fabrictype.WaitReason = "budget"
)

// A node waits for a time, or for a program that is late.
const (
	// Timer: the node sleeps until Until: it is a timer, or its function sleeps at the step Subject.
	Timer fabrictype.WaitReason = "timer"
	// Delay: the node was delayed. Until is the end of the delay.
	Delay fabrictype.WaitReason = "delay"
	// Start: the run starts at Until; see runtime.StartAt.
	Start fabrictype.WaitReason = "start"
	// Queue: the run waits for its turn among those of the key Key; see runtime.WithKey. Have is its place in the
	// queue, Subject a run that is open.
	Queue fabrictype.WaitReason = "queue"
	// Retry: its last attempt failed. Attempt Have of Need begins at Until; Detail is the failure.
	Retry fabrictype.WaitReason = "retry"
	// KeeperOverdue: a keeper is late with what Subject, another reason, says. Until is when it was due.
	KeeperOverdue fabrictype.WaitReason = "keeper_overdue"
	// Submission: the run is being submitted.
	Submission fabrictype.WaitReason = "submission"
	// RunOver: the run has ended, and the engine is about to end the node.
	RunOver fabrictype.WaitReason = "run_over"
	// Other: a reason of another program, in Detail.
	Other fabrictype.WaitReason = "other"
)

// Reasons returns all reasons, in the order of their declaration.
func Reasons() []fabrictype.WaitReason {
	return []fabrictype.WaitReason{
		waitreason.Upstreams, waitreason.Join, waitreason.Settling, waitreason.ChildRun, waitreason.Signals, waitreason.Escalated,
		waitreason.Worker, waitreason.Unserved, waitreason.Unregistered, waitreason.Capability, waitreason.WorkerLost, waitreason.LeaseRevoked,
		waitreason.LanePaused, waitreason.ActivityPaused, waitreason.RunPaused, waitreason.Operator, waitreason.Limit, waitreason.RateWindow, waitreason.Budget,
		waitreason.Timer, waitreason.Delay, waitreason.Start, waitreason.Retry, waitreason.KeeperOverdue, waitreason.Submission, waitreason.RunOver, waitreason.Other,
	}
}

// Explanation says why a node does not run. It is zero for a node that runs or has ended. The comment of each reason
// says which other fields are set; fields that do not apply are zero.
type Explanation struct {
	Reason fabrictype.WaitReason `json:"reason"`
	// Sentence is for people: English, one line.
	Sentence string `json:"sentence"`
	// Remedy says in English what ends the wait sooner; empty when nothing has to be done.
	Remedy string `json:"remedy,omitempty"`
	// Since is when the wait began, as far as the engine knows.
	Since time.Time `json:"since,omitzero"`
	// Until is when the wait ends at the latest, or is due to end.
	Until time.Time `json:"until,omitzero"`
	// By is the actor of the operation that keeps the node waiting, as runtime.WithActor named it.
	By string `json:"by,omitempty"`
	// Subject is what the node waits for, and Key its key or flow.
	Subject string `json:"subject,omitempty"`
	Key     string `json:"key,omitempty"`
	// Names are the nodes, signals or capabilities that are missing.
	Names []string `json:"names,omitempty"`
	// Have and Need are counts: Have of Need.
	Have int `json:"have,omitempty"`
	Need int `json:"need,omitempty"`
	// Detail is a text that somebody gave, such as the reason of a pause.
	Detail string `json:"detail,omitempty"`
}

// String returns the sentence and the remedy; empty for a node that runs or has ended.
func (e fabrictype.Explanation) String() string {
	if e.Remedy == "" {
		return e.Sentence
	}
	return fmt.Sprintf("%s; %s", e.Sentence, e.Remedy)
}
