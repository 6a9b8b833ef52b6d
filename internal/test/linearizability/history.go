package linearizability

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Performer performs calls.
type Performer interface {
	// Perform returns the outcome of a call. It never fails: an error is an unknown outcome.
	Perform(c Call) Outcome
}

// History records calls. It is safe for concurrent use.
type History struct {
	began       time.Time
	repliesLost bool // by a network or a server, so that calls are sent again

	mu      sync.Mutex
	calls   []porcupine.Operation
	unknown int
	next    int // the next client of a call with an unknown outcome
}

// NewHistory returns an empty history.
func NewHistory(repliesLost bool) *History {
	return &History{began: time.Now(), repliesLost: repliesLost, next: 1000}
}

// do performs a call and records it. The client is the number of who calls, below 1000.
func (h *History) do(client int, p Performer, c Call) Outcome {
	from := time.Since(h.began)
	o := p.Perform(c)
	until := time.Since(h.began)
	h.add(client, c, o, int64(from), int64(until))
	return o
}

// add records a call. A call with an unknown outcome has no end, so it belongs to a separate client; if it only reads,
// it has no effect and is left out.
func (h *History) add(client int, c Call, o Outcome, from, until int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.Code == Unknown {
		h.unknown++
		if c.Kind == Describe || c.Kind == Result {
			return
		}
		client, until = h.next, math.MaxInt64
		h.next++
	}
	h.calls = append(h.calls, porcupine.Operation{ClientId: client, Input: c, Output: o, Call: from, Return: until})
}

// Count returns how many calls were recorded by outcome and kind.
func (h *History) Count() (total, unknown int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.calls), h.unknown
}

// Faults returns the histories of the runs that are not linearizable, as text; none if all are.
func (h *History) Faults() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var faults []string
	model := modelOf(h.repliesLost)
	checked := model.ToModel()
	for _, part := range model.Partition(h.calls) {
		if !porcupine.CheckOperations(checked, part) {
			faults = append(faults, text(part))
		}
	}
	return faults
}

// text returns the calls of a run, one a line, in the order of their beginnings.
func text(calls []porcupine.Operation) string {
	calls = slices.Clone(calls)
	slices.SortFunc(calls, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	var b strings.Builder
	fmt.Fprintf(&b, "the calls of run %s have no order that the model allows:\n", calls[0].Input.(Call).Run)
	for _, c := range calls {
		until, why := "", c.Output.(Outcome).Why
		if c.Return != math.MaxInt64 {
			until = time.Duration(c.Return).String()
		}
		fmt.Fprintf(&b, "%14s - %-14s client %-4d %s → %s %s\n", time.Duration(c.Call), until, c.ClientId, c.Input, c.Output, why)
	}
	return b.String()
}
