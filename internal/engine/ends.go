package engine

import (
	"slices"
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// EndReceiver receives the ends of runs of which the workers of its session learn by replies.
type EndReceiver interface {
	// EndedHere is called when a worker has ended a run, with the result of the run.
	EndedHere(id enginecore.FlowID, result []byte)
	// MayHaveEnded is called when a worker may have ended a run by a call whose reply was lost.
	MayHaveEnded(id enginecore.FlowID)
}

// Ends passes ends of runs from the workers of a session to its clients, about which the engine sends no message to the
// process. The zero value is ready for use; it is safe for concurrent use.
type Ends struct {
	mu        sync.Mutex
	receivers []EndReceiver // replaced when it changes
}

// Join adds a receiver until leave is called.
func (e *Ends) Join(r EndReceiver) (leave func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.receivers = append(slices.Clip(e.receivers), r)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.receivers = slices.DeleteFunc(slices.Clone(e.receivers), func(other EndReceiver) bool { return other == r })
	}
}

// All returns the receivers at the moment.
func (e *Ends) All() []EndReceiver {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.receivers
}

// LocalOrigin returns the origin by which the session's workers get the ends of the session's own runs with their
// replies; "" if no client of the session waits for ends. In a quiet session, whose clients do not check their runs
// from time to time, the end of a run whose reply is lost would be missed, so that its ends come as messages.
func (s *Session) LocalOrigin() string {
	if s.Quiet || len(s.Ends.All()) == 0 {
		return ""
	}
	return s.Origin
}
