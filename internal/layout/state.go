package layout

// NodeState is what is drawn of the state of a node in a run.
type NodeState struct {
	State State
	// Text is the line below the name, such as "187 of 240 items"; "" is that of the State.
	Text string
	// Progress is that of what the node runs: the items of a map, the nodes of a sub-flow. The zero value draws none.
	// That of a Fold is made from the states of its members.
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
