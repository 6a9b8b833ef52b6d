package linearizability

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// directoryVariable makes the program of the tests a process that holds the embedded engine of a directory.
const directoryVariable = "FLOWFABRIC_LINEARIZABILITY_DIRECTORY"

func TestMain(m *testing.M) {
	if dir := os.Getenv(directoryVariable); dir != "" {
		if err := serve(context.Background(), dir, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	enginetest.Main(m)
}

// request is a call that is sent to the process, reply its answer. Number 0 means that the process is ready.
type (
	request struct {
		Number int
		Call   Call
	}
	reply struct {
		Number  int
		Outcome Outcome
	}
)

// serve performs the calls that arrive on an embedded engine, until the input ends or the process is killed.
func serve(ctx context.Context, dir string, in io.Reader, out io.Writer) error {
	engine, err := runtime.Open(ctx, "embedded:"+dir+"?fsync=always", runtime.OpenConfig{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	client, err := runtime.NewClient(engine)
	if err != nil {
		return err
	}
	performer, err := NewClient(client, func() context.Context { return ctx })
	if err != nil {
		return err
	}
	keeper, err := runtime.NewKeeper(engine, runtime.KeeperConfig{})
	if err != nil {
		return err
	}
	go func() { _ = keeper.Run(ctx) }() // it ends with the process
	var mu sync.Mutex
	replies := json.NewEncoder(out)
	answer := func(r reply) {
		mu.Lock()
		defer mu.Unlock()
		_ = replies.Encode(r) // no reader is left if the parent has ended
	}
	answer(reply{})
	requests := json.NewDecoder(bufio.NewReader(in))
	for {
		var r request
		if err := requests.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return err
		}
		go func() { answer(reply{r.Number, performer.Perform(r.Call)}) }()
	}
}

// process is a Performer in another process, which can be killed.
type process struct {
	dir string

	running sync.RWMutex // held while the process is killed and spawned again, so that calls wait

	mu      sync.Mutex
	command *exec.Cmd
	in      io.WriteCloser
	ended   chan struct{} // closed when the process has ended and all its replies were read
	pending map[int]chan Outcome
	last    int
}

// Perform implements Performer. A call that was under way when the process was killed has an unknown outcome.
func (p *process) Perform(c Call) Outcome {
	answer, err := p.send(c)
	if err != nil {
		return Outcome{Code: Unknown, Why: err.Error()}
	}
	return <-answer
}

// send sends a call and returns where its outcome comes.
func (p *process) send(c Call) (<-chan Outcome, error) {
	p.running.RLock()
	defer p.running.RUnlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	answer := make(chan Outcome, 1)
	p.pending[p.last] = answer
	return answer, json.NewEncoder(p.in).Encode(request{p.last, c})
}

// spawn begins the process and returns when its engine is open.
func (p *process) spawn() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	command := exec.Command(program)
	command.Env = append(os.Environ(), directoryVariable+"="+p.dir)
	command.Stderr = os.Stderr
	if p.in, err = command.StdinPipe(); err != nil {
		return err
	}
	out, err := command.StdoutPipe()
	if err != nil {
		return err
	}
	if err := command.Start(); err != nil {
		return err
	}
	p.command, p.pending, p.ended = command, make(map[int]chan Outcome), make(chan struct{})
	replies := json.NewDecoder(bufio.NewReader(out))
	var ready reply
	if err := replies.Decode(&ready); err != nil {
		return errors.Join(fmt.Errorf("the process does not open its engine: %w", err), command.Wait())
	}
	go p.listen(replies, p.pending, p.ended)
	return nil
}

// listen passes on replies until the process ends; then the outcomes that are missing are unknown.
func (p *process) listen(replies *json.Decoder, pending map[int]chan Outcome, ended chan struct{}) {
	defer close(ended)
	for {
		var r reply
		err := replies.Decode(&r)
		p.mu.Lock()
		if err != nil {
			for number, answer := range pending {
				answer <- Outcome{Code: Unknown, Why: "the process was killed"}
				delete(pending, number)
			}
			p.mu.Unlock()
			return
		}
		pending[r.Number] <- r.Outcome
		delete(pending, r.Number)
		p.mu.Unlock()
	}
}

// kill ends the process with SIGKILL. Calls wait until it is spawned again.
func (p *process) kill(again bool) error {
	p.running.Lock()
	defer p.running.Unlock()
	if err := p.command.Process.Kill(); err != nil {
		return err
	}
	<-p.ended
	_ = p.command.Wait() // it was killed
	if !again {
		return nil
	}
	return p.spawn()
}

// Concurrent clients of an embedded engine whose process is killed see one order of calls.
func TestKilledProcess(t *testing.T) {
	t.Parallel()
	enginetest.Only(t, testserver.Embedded)
	each(t, func(seed uint64) *History {
		p := &process{dir: t.TempDir()}
		require.NoError(t, p.spawn())
		defer func() { require.NoError(t, p.kill(false)) }()
		var performers []Performer
		for range clients {
			performers = append(performers, p)
		}
		return record(performers, seed, func(r *rand.Rand) {
			if r.IntN(4) == 0 {
				require.NoError(t, p.kill(true))
			}
		})
	})
}
