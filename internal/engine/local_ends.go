package engine

import (
	"sync"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// RunEnd is the end of a run that a worker of this process has completed. Without Known, the run may be over, so that
// its state has to be read.
type RunEnd struct {
	FlowID enginecore.FlowID
	Known  bool // the run is over with success
	// HasResult is set if Result is the result of the run; otherwise it has to be read.
	HasResult bool
	Result    []byte
}

// LocalEnds passes the ends of runs from the workers of a session to its clients, for which the engine sends no
// message. The zero value has no listeners. It is safe for concurrent use.
type LocalEnds struct {
	mu        sync.RWMutex
	listeners map[*func(RunEnd)]struct{}
}

// Listen calls listener for each end until the returned function is called.
func (l *LocalEnds) Listen(listener func(RunEnd)) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listeners == nil {
		l.listeners = make(map[*func(RunEnd)]struct{})
	}
	l.listeners[&listener] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.listeners, &listener)
	}
}

// Announce calls all listeners.
func (l *LocalEnds) Announce(end RunEnd) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for listener := range l.listeners {
		(*listener)(end)
	}
}
