package runtime

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// request is the claim that comes with admissions, for some of the slots.
func (t *taker) request(slots int) enginecore.ClaimRequest {
	if t.shift == nil {
		// Nothing is leased, so nobody has to be named.
		return enginecore.ClaimRequest{WorkerID: "keeper", LeaseTTL: DefaultLease}
	}
	return t.shift.claimRequest(t.lane, slots)
}

// admit sends admissions, again after a lost reply, and makes tasks of what was leased.
func (t *taker) admit(ctx context.Context, core *enginecore.Engine, call enginecore.AdmitCall) ([]*task, enginecore.AdmitReply, error) {
	sentAt := time.Now()
	reply, err := core.Admit(ctx, call)
	for errors.Is(err, enginecore.ErrOutcomeUnknown) && ctx.Err() == nil && t.shift != nil && !t.shift.board.isClosed() {
		t.shift.leases.doubt()
		call.Repeated = true
		pause(ctx, claimPause)
		sentAt = time.Now()
		reply, err = core.Admit(ctx, call)
	}
	if err != nil {
		if t.shift != nil {
			t.shift.leases.doubt()
		}
		return nil, reply, err
	}
	var tasks []*task
	for _, claimed := range reply.Executions {
		tasks = append(tasks, newTask(t.shift, spot{t.lane, call.Partition}, claimed, sentAt))
	}
	return tasks, reply, nil
}

// admit takes candidates through their limits. What it got runs in the slots that the caller has reserved; it returns how
// many of them.
func (s *shift) admit(lane enginecore.LaneID, candidates []enginecore.Candidate, slots int) int {
	tasks := admitter{s.session}.admit(s.base, candidates, &taker{s, lane, slots})
	s.begin(tasks)
	return len(tasks)
}

func (s *shift) begin(tasks []*task) {
	s.permits.ask(tasks...)
	s.launch(tasks)
}

func (s *shift) launch(tasks []*task) {
	for _, t := range tasks {
		s.tasks.Go(func() { s.work(t) })
	}
}

// admitNext takes candidates that came with the completion of a task through their limits, for its slot. What the task has to
// give back goes along. It returns the task to go on with.
func (s *shift) admitNext(ended *task, candidates []enginecore.Candidate) *task {
	lane := ended.spot.lane
	s.note(ended)
	tasks := admitter{s.session}.admit(s.base, candidates, &taker{s, lane, 1})
	if len(tasks) == 0 {
		return nil
	}
	return tasks[0]
}

// debts gathers what ended attempts give back. While somebody waits for one of the places, they go back at once, and what ends
// meanwhile goes together; else they take debtPause, or go along with the next request.
type debts struct {
	mu      sync.Mutex
	pending []debt
	lane    enginecore.LaneID // of the last one, for which work is taken along
	running int               // errands
}

// maxPayers bounds the errands by which places go back at a time.
const maxPayers = 4

// owe gives back the places of an attempt that is over.
func (s *shift) owe(t *task) {
	s.note(t)
	s.debts.mu.Lock()
	defer s.debts.mu.Unlock()
	// While somebody waits, what ends does not wait for the errand of another place, which may take some calls.
	if len(s.debts.pending) > 0 && (s.debts.running == 0 || s.debts.running < maxPayers && s.limits.crowded(s.debts.pending)) {
		s.debts.running++
		// What it takes along counts when the worker stops. The caller is one of the tasks, so none has stopped waiting.
		s.tasks.Go(s.payDebts)
	}
}

// note notes the places of an attempt that is over, once, for whoever asks a limit next.
func (s *shift) note(t *task) {
	if t.noted {
		return
	}
	t.noted = true
	if t.block != nil {
		t.block.leave(t.placed)
		return
	}
	if t.claimed.Admission == "" || t.unsure.Load() {
		return
	}
	d, ok := debtOf(&t.claimed)
	if !ok {
		return
	}
	s.debts.mu.Lock()
	defer s.debts.mu.Unlock()
	s.debts.pending = append(s.debts.pending, d)
	s.debts.lane = t.spot.lane
}

// debtPause is how long places are kept that nobody waits for.
const debtPause = 5 * time.Millisecond

// debtsTo takes what is to be given back to a quota and to no other.
func (t *taker) debtsTo(quota enginecore.QuotaPolicyID) []debt {
	if t.shift == nil {
		return nil
	}
	s := t.shift
	s.debts.mu.Lock()
	defer s.debts.mu.Unlock()
	var taken, rest []debt
	for _, d := range s.debts.pending {
		if len(d.limits) == 1 && d.limits[0].Quota == quota && len(taken) < maxDebts {
			taken = append(taken, d)
		} else {
			rest = append(rest, d)
		}
	}
	s.debts.pending = rest
	return taken
}

// heardOf notes how a limit stands.
func (t *taker) heardOf(quota enginecore.QuotaPolicyID, news limitNews) {
	if t.shift != nil {
		t.shift.limits.heard(quota, news)
	}
}

// maxDebts bounds what goes back in one go.
const maxDebts = 256

func (s *shift) payDebts() {
	for {
		s.debts.mu.Lock()
		if len(s.debts.pending) > 0 && !s.limits.crowded(s.debts.pending) && !s.board.isClosed() {
			s.debts.mu.Unlock()
			pause(s.base, debtPause)
			s.debts.mu.Lock()
		}
		list, lane := s.debts.pending, s.debts.lane
		if len(list) == 0 {
			s.debts.running--
			s.debts.mu.Unlock()
			return
		}
		n := min(maxDebts, len(list))
		s.debts.pending = list[n:]
		s.debts.mu.Unlock()
		slots := s.reserve(n)
		tasks := admitter{s.session}.settle(s.base, list[:n], &taker{s, lane, slots})
		s.begin(tasks)
		s.board.restore(slots - len(tasks))
	}
}

// reserve takes up to n free slots for executions that get the places which others give back.
func (s *shift) reserve(n int) int {
	if s.worker.config.through {
		return 0
	}
	return s.board.reserve(n)
}
