package completion

import (
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// Handoff holds the executions in the reply to a report, for the slot that becomes free and for others.
type Handoff struct {
	SentAt time.Time
	// Next was leased for the slot; nil if nothing was.
	Next *enginerpc.ClaimedExecution
	// Candidates can be next after they have been admitted under their limits.
	Candidates []enginerpc.Candidate
	// Surplus was leased for completions that were refused, so no slot is free for it. spare are candidates
	// for which no slot is free.
	Surplus []enginerpc.ClaimedExecution
	Spare   []enginerpc.Candidate
	// More reports whether the partition has work left that exceeded one call, remaining whether the lane has
	// further executions to claim there.
	More, Remaining bool
}

// handoffOf returns the handoff of a reply to the report of one execution.
func handoffOf(
	executions []enginerpc.ClaimedExecution, candidates []enginerpc.Candidate, more, remaining bool, sentAt time.Time,
) Handoff {
	h := Handoff{SentAt: sentAt, More: more, Remaining: remaining}
	if len(executions) > 0 {
		h.Next, h.Spare = &executions[0], candidates
	} else {
		h.Candidates = candidates
	}
	return h
}

// Add adds the rest of a call with several completions that belongs to none of them.
func (h *Handoff) Add(leftover Handoff) {
	h.Surplus, h.Spare = append(h.Surplus, leftover.Surplus...), append(h.Spare, leftover.Spare...)
	h.More, h.Remaining = h.More || leftover.More, h.Remaining || leftover.Remaining
	if h.SentAt.IsZero() {
		h.SentAt = leftover.SentAt
	}
}
