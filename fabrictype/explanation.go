package fabrictype

import (
	"fmt"
	"time"
)

// Explanation is the reason why a node does not run, with its details. It is zero for a node that runs or has ended.
// Fields that do not apply are zero. Programs treat reasons that they do not know like "other".
//
// The node waits for other nodes, runs or people:
//   - "upstreams": nodes that it depends on have not ended; Names are those nodes.
//   - "join": its join is not decided; Need more of the upstreams in Names have to succeed.
//   - "settling": its upstreams have ended, and the engine processes the consequences.
//   - "child_run": the run of a map or sub-flow node has not ended; Subject is the run, Key its flow.
//   - "signals": Have of Need signals have come; Names are the names that count, Until is the timeout.
//   - "escalated": the time of the wait for signals was up, and the wait continues.
//
// It could start, but no worker takes it:
//   - "worker": no worker has had a free slot for it; Subject is the lane, Until the timeout for the start.
//   - "unserved": no live worker serves the activity Subject on the lane Key; Detail is the worker instance that did
//     last, empty if none is known, Until the timeout for the start.
//   - "unregistered": no worker that was offered the node has registered the activity, which is Subject.
//   - "capability": no worker that was offered the node has the capabilities in Names.
//   - "worker_lost": the lease of the worker that ran it has ended, and no other worker has taken it over; Subject is
//     the worker instance, Have is how many workers the node has lost in a row. After several, it is held back until
//     Until; see activity.LostWorkers.
//   - "lease_revoked": an operator took it from its worker, and no other worker has taken it over.
//   - "undecodable": a worker could not decode its input, and another one has the activity with another input type.
//     Until is when a worker may take it again.
//
// Something keeps it from starting:
//   - "lane_paused", "activity_paused", "run_paused": Subject is paused, By is the actor, Detail the reason that was
//     given.
//   - "operator": a program has blocked the execution by the functions of the engine; Detail is its text.
//   - "limit": the limit Subject with the key Key has no place: Have of Need are taken.
//   - "rate_window": as many as the limit Subject allows within its window have started; Until is when it has room.
//   - "budget": the budget Subject is exhausted; Until is its next reset.
//
// It waits for a time, or for a program that is late:
//   - "timer": the node sleeps until Until: it is a timer, or its function sleeps at the step Subject.
//   - "delay": the node was delayed; Until is the end of the delay.
//   - "start": the run starts at Until; see runtime.StartAt.
//   - "queue": the run waits for its turn among the runs of the key Key; Have is its place in the queue, Subject a run
//     that is open. See runtime.WithKey.
//   - "retry": its last attempt failed; attempt Have of Need begins at Until, Detail is the failure.
//   - "keeper_overdue": a keeper is late with Subject, which is another reason; Until is when it was due.
//   - "submission": the run is being submitted.
//   - "run_over": the run has ended, and the engine is about to end the node.
//   - "other": a reason of another program, in Detail.
type Explanation struct {
	// Reason is one of the texts above, for programs.
	Reason string `json:"reason"`
	// Sentence is for people: English, one line.
	Sentence string `json:"sentence"`
	// Remedy is the way to end the wait sooner, in English; empty when nothing has to be done.
	Remedy string `json:"remedy,omitempty"`
	// Since is when the wait began, as far as the engine knows.
	Since time.Time `json:"since,omitzero"`
	// Until is when the wait ends at the latest, or is due to end.
	Until time.Time `json:"until,omitzero"`
	// By is the actor of the operation that keeps the node waiting, as runtime.WithActor named it.
	By string `json:"by,omitempty"`
	// Subject is the thing that the node waits for, and Key its key or flow.
	Subject string `json:"subject,omitempty"`
	Key     string `json:"key,omitempty"`
	// Names are the nodes, signals or capabilities that are missing.
	Names []string `json:"names,omitempty"`
	// Have and Need are counts: Have of Need.
	Have int `json:"have,omitempty"`
	Need int `json:"need,omitempty"`
	// Detail is a text that a person or program gave, such as the reason of a pause.
	Detail string `json:"detail,omitempty"`
}

// String returns the sentence and the remedy; empty for a node that runs or has ended.
func (e Explanation) String() string {
	if e.Remedy == "" {
		return e.Sentence
	}
	return fmt.Sprintf("%s; %s", e.Sentence, e.Remedy)
}
