package activitycontext

import "sync"

// StepNames distinguishes the calls of one run of a function that record something under the same name, by the order
// of the calls. It is safe for concurrent use; the zero value has counted nothing.
type StepNames struct {
	mu     sync.Mutex
	counts map[string]int
	// running has the names of calls that have not returned, and of waits that ended the run.
	running map[string]bool
	steps   int
}

// Next counts a call with the name and returns how many there have been since the function began. It reports false, and
// counts nothing, while Begin holds the name.
func (s *StepNames) Next(kind, name string) (count int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.next(kind + ":" + name)
}

func (s *StepNames) next(call string) (count int, ok bool) {
	if s.running[call] {
		return 0, false
	}
	if s.counts == nil {
		s.counts = make(map[string]int, 1)
	}
	s.counts[call]++
	return s.counts[call], true
}

// Begin is Next for a call that holds its name until End.
func (s *StepNames) Begin(kind, name string) (count int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if count, ok = s.next(kind + ":" + name); ok {
		s.hold(kind, name)
	}
	return count, ok
}

// End ends the use of a name that Begin began.
func (s *StepNames) End(kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.running, kind+":"+name)
}

// Hold reserves the name of a wait that has ended the run of the function. The name is never released.
func (s *StepNames) Hold(kind, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold(kind, name)
}

func (s *StepNames) hold(kind, name string) {
	if s.running == nil {
		s.running = make(map[string]bool, 1)
	}
	s.running[kind+":"+name] = true
}

// Count returns how many calls with the name there have been.
func (s *StepNames) Count(kind, name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[kind+":"+name]
}

// Enter records that the function of a step begins, and returns a function that records its end.
func (s *StepNames) Enter() (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.steps--
	}
}

// InStep reports whether the function of a step runs.
func (s *StepNames) InStep() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.steps > 0
}
