package layout

// NodeState is the part of a node's state in a run that is drawn.
type NodeState struct {
	State State
	// Text is the line below the name, such as "187 of 240 items"; "" draws the text of the State.
	Text string
	// Progress counts the parts that the node runs: the items of a map, the nodes of a sub-flow. The zero value draws
	// none. The progress of a Fold is computed from the states of its members.
	Progress Progress
}

// Progress is how far several executions are. Those that are in none of the three counts wait.
type Progress struct {
	Succeeded, Failed, Running, Total int
}

// State is the state of a node in a drawing.
type State string

// The states.
const (
	NotStarted State = "not_started"
	Queued     State = "queued"
	Running    State = "running"
	// WaitingForPerson is a waitpoint for a person or a signal.
	WaitingForPerson State = "waiting_for_person"
	Delayed          State = "delayed"
	Retrying         State = "retrying"
	Blocked          State = "blocked"
	Paused           State = "paused"
	NoWorker         State = "no_worker"
	Succeeded        State = "succeeded"
	Failed           State = "failed"
	Cancelled        State = "cancelled"
	Skipped          State = "skipped"
	Expired          State = "expired"
)
