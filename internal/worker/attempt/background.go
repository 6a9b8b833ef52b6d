package attempt

import "sync"

// Background are goroutines that can be started until Finish is called. The zero value is ready.
type Background struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

// Start runs a function in a goroutine, unless Finish was called.
func (e *Background) Start(do func()) (started bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.running.Go(do)
	}
	return !e.over
}

// Finish waits for the running goroutines; Start starts none from now on.
func (e *Background) Finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.running.Wait()
}
