package worker

import "sync"

// backgroundTasks are goroutines that can be started until finish is called. The zero value is ready.
type backgroundTasks struct {
	mu      sync.Mutex
	over    bool
	running sync.WaitGroup
}

// start runs a function in a goroutine, unless finish was called.
func (e *backgroundTasks) start(do func()) (started bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.over {
		e.running.Go(do)
	}
	return !e.over
}

// finish waits for the running goroutines; start starts none from now on.
func (e *backgroundTasks) finish() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
	e.running.Wait()
}
