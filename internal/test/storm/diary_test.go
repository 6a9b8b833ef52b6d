package storm

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// event is the kind of a diary entry.
type event string

const (
	began    event = "began"    // a function
	ended    event = "ended"    // a function, with a result or without
	charged  event = "charged"  // the function of a durable step ran
	recorded event = "recorded" // the durable step has this result
	starting event = "starting" // a client starts a run,
	started  event = "started"  // the start was acknowledged
	meddling event = "meddling" // a client cancels a run or runs it again
	signal   event = "signal"   // a client sends a product to a wait
	holding  event = "holding"  // a function has reserved coins,
	freeing  event = "freeing"  // and gives them back
	spends   event = "spends"   // a function reports usage,
	spent    event = "spent"    // and the report was acknowledged
	keyed    event = "keyed"    // a call with a key returned this run
	mailing  event = "mailing"  // a client sends a message to a mailbox,
	mailed   event = "mailed"   // and the send was acknowledged
	died     event = "died"     // a process has been killed
)

// entry is one line of the diary.
type entry struct {
	What    event  `json:"what"`
	Pid     int    `json:"pid"`
	Run     string `json:"run,omitempty"`
	Node    string `json:"node,omitempty"`
	Nonce   string `json:"nonce,omitempty"`
	Seed    uint64 `json:"seed,omitempty"`
	Limited bool   `json:"limited,omitempty"`
	Amount  int64  `json:"amount,omitempty"`
	// Lost reports of a function's end that its worker had lost the lease.
	Lost bool `json:"lost,omitempty"`
	// At is the time by the clock of the process that wrote the entry.
	At time.Time `json:"at"`
}

// diary is the log file of a storm: all processes append their events to it. A written line survives its process, and
// lines are in the order of events.
type diary struct {
	mu   sync.Mutex
	file *os.File
	pid  int
}

func openDiary(path string) (*diary, error) {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	return &diary{file: file, pid: os.Getpid()}, err
}

// reopen continues in another file.
func (d *diary) reopen(path string) error {
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.file, file = file, d.file
	return file.Close()
}

func (d *diary) close() error { return d.file.Close() }

// note panics when it cannot write: nothing that follows could be checked.
func (d *diary) note(e entry) {
	if e.Pid == 0 {
		e.Pid = d.pid
	}
	e.At = time.Now()
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.file.Write(append(line, '\n')); err != nil {
		panic(err)
	}
}

func readDiary(path string) ([]entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var entries []entry
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("line %d: %w", len(entries)+1, err)
		}
		entries = append(entries, e)
	}
	return entries, nil
}

var errScripted = errors.New("scripted failure")

// step is the function of all nodes.
func (d *diary) step(ctx context.Context, o order) (product, error) {
	info, _ := activity.Info(ctx)
	e := entry{Run: info.RunID, Node: info.Node, Nonce: uuid.NewString(), Limited: o.Task.Limited}
	note := func(what event) { e.What = what; d.note(e) }
	note(began)
	defer func() {
		e.Lost = errors.Is(context.Cause(ctx), runtime.ErrLeaseLost)
		note(ended)
	}()
	if info.Attempt <= o.Task.Fails || o.Task.Dies {
		if o.Task.Later {
			return product{}, activity.RetryAfter(errScripted, 3*time.Millisecond)
		}
		return product{}, errScripted
	}
	if o.Task.Limited {
		activity.Logger(ctx).Info("it works", "nonce", e.Nonce)
		if err := activity.Publish(ctx, "nonce", e.Nonce); err != nil {
			return product{}, err
		}
	}
	err := d.hold(ctx, e, o.Task.Holds, func() error {
		select {
		case <-time.After(o.Task.Pace):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	if err != nil {
		return product{}, err
	}
	if err := d.spend(ctx, e, o.Task.Spends); err != nil {
		return product{}, err
	}
	p := product{Node: info.Node, Nonce: e.Nonce}
	if o.First != nil {
		p.From = append(p.From, o.First.Nonce)
	}
	if o.Backed != nil {
		for _, in := range []product{o.Backed.A, o.Backed.B, o.Backed.C, o.Backed.D} {
			if in.Nonce != "" {
				p.From = append(p.From, in.Nonce)
			}
		}
	}
	for _, in := range o.All {
		p.From = append(p.From, in.Nonce)
		p.Turn = max(p.Turn, in.Turn)
	}
	p.Turn++
	if o.Task.Once {
		if err := d.charge(ctx, e); err != nil {
			return product{}, err
		}
	}
	if o.Task.Asks {
		if _, err := activity.Await[product](ctx, "ask"); err != nil {
			return product{}, err
		}
	}
	return p, nil
}

// half is the place of one of the two steps within a durable step.
func half(node string, n int) string { return fmt.Sprintf("%s/half-%d", node, n) }

// charge is a durable step with two others in it, which run at the same time.
func (d *diary) charge(ctx context.Context, e entry) error {
	once := func(node string) func(context.Context) (string, error) {
		return func(context.Context) (string, error) {
			d.note(entry{What: charged, Run: e.Run, Node: node, Nonce: e.Nonce})
			return e.Nonce, nil
		}
	}
	both, err := activity.Step(ctx, "charge", func(ctx context.Context) (string, error) {
		d.note(entry{What: charged, Run: e.Run, Node: e.Node, Nonce: e.Nonce})
		halves := make([]*activity.Future[string], 2)
		for i := range halves {
			halves[i] = activity.Go(ctx, "half", once(half(e.Node, i)))
		}
		nonces := make([]string, 2)
		for i, h := range halves {
			var err error
			if nonces[i], err = h.Result(ctx); err != nil {
				return "", err
			}
			d.note(entry{What: recorded, Run: e.Run, Node: half(e.Node, i), Nonce: nonces[i]})
		}
		return strings.Join(nonces, " "), nil
	})
	if err == nil {
		d.note(entry{What: recorded, Run: e.Run, Node: e.Node, Nonce: both})
	}
	return err
}
