package fabrictype

// SignalResult is the engine's reply to a signal.
type SignalResult struct {
	Outcome SignalOutcome `json:"outcome" doc:"accepted, resumed, duplicate, closed or expired"`
	// SignalID identifies the signal; for a duplicate, the first delivery.
	SignalID string `json:"signal_id,omitempty"`
	// First is the outcome of the first delivery of a duplicate; empty otherwise.
	First SignalOutcome `json:"first,omitempty" doc:"Outcome of the first delivery of a duplicate."`
	// Counts reports whether an accepted signal, or the first delivery of a duplicate, counts towards the end of the
	// wait. A signal with another name, or from a source that was counted already, is recorded but does not count. One
	// that comes before the wait of a function is kept and does not count yet: the wait itself determines which signals
	// it needs.
	Counts bool `json:"counts" doc:"The signal counts towards the end of the wait."`
}

// Answer returns the outcome of the first delivery: First for a duplicate, Outcome otherwise.
func (r SignalResult) Answer() SignalOutcome {
	if r.Outcome == SignalDuplicate && r.First != "" {
		return r.First
	}
	return r.Outcome
}
