package testserver

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// readyWithin is generous: the machine may be busy with other tests, and a restarted server loads
// its data first.
const readyWithin = 60 * time.Second

// Supervisor names the function in which one goroutine per running server waits. Tests that look
// for leaked goroutines while servers run leave it out.
const Supervisor = modulePath + "/internal/test/testserver.supervise"

// The client library delays the close of connections to servers that have left a cluster, and reads the state of a
// cluster again after a pause. Tests for leaked goroutines leave out these two waiting functions.
const (
	LateClose   = "github.com/redis/rueidis.(*clusterClient)._refresh.func2"
	LateRefresh = "github.com/redis/rueidis.(*call).DelayDo.func1"
)

// instance is one server with its port and folder; its process may come and go.
type instance struct {
	path string
	dir  string
	opts Options
	port *port
	// databases counts those that Database has given away.
	databases atomic.Uint32

	mu   sync.Mutex
	proc *process
}

func newInstance(path, dir string, o Options) (*instance, error) {
	// Another process may take the port between the choice and the server's bind.
	for attempt := 1; ; attempt++ {
		p, err := reservePort()
		if err != nil {
			return nil, err
		}
		in := &instance{path: path, dir: dir, opts: o, port: p}
		if err = in.run(); err == nil {
			return in, nil
		}
		in.close()
		if !errors.Is(err, errPortTaken) || attempt == 5 {
			return nil, err
		}
	}
}

func (in *instance) addr() string { return address(in.port.number) }

// run starts the process and waits until it answers.
func (in *instance) run() error {
	conf, err := writeConfig(in.opts, in.port.number, in.dir)
	if err != nil {
		return err
	}
	var environment []string // nil: this process's own
	if in.opts.Clock {
		if environment, err = clockEnvironment(in.dir); err != nil {
			return err
		}
	}
	proc, err := startProcess(in.path, conf, filepath.Join(in.dir, "server.log"), in.opts.Sentinel, environment)
	if err != nil {
		return err
	}
	in.mu.Lock()
	in.proc = proc
	in.mu.Unlock()
	if err := proc.ready(in.addr(), in.opts.Password); err != nil {
		in.kill()
		return err
	}
	return nil
}

func (in *instance) kill() {
	in.mu.Lock()
	proc := in.proc
	in.mu.Unlock()
	if proc != nil {
		proc.kill()
	}
}

// Freeze stops the process of the server, which keeps its connections and answers nothing until Thaw.
func (in *instance) Freeze() error { return in.signal(syscall.SIGSTOP) }

// Thaw continues the process after Freeze.
func (in *instance) Thaw() error { return in.signal(syscall.SIGCONT) }

func (in *instance) signal(s syscall.Signal) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.proc.cmd.Process.Signal(s)
}

// close ends the server for good.
func (in *instance) close() {
	in.kill()
	in.port.release()
}

func (in *instance) exited() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.proc == nil {
		return true
	}
	select {
	case <-in.proc.gone:
		return true
	default:
		return false
	}
}

// process is one life of a server.
type process struct {
	cmd  *exec.Cmd
	log  *os.File
	gone chan struct{} // closed when the process has exited
}

func startProcess(path, conf, logPath string, sentinel bool, environment []string) (*process, error) {
	log, err := os.OpenFile(logPath, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(path, conf)
	if sentinel {
		cmd.Args = append(cmd.Args, "--sentinel")
	}
	cmd.Env = environment
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = endWithParent()
	p := &process{cmd: cmd, log: log, gone: make(chan struct{})}
	started := make(chan error)
	go supervise(p, started)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// supervise starts the process and waits for its end. The kernel ends the process together with
// the thread that started it, not with ours as a whole; so this goroutine keeps that thread until
// there is nothing left to end.
func supervise(p *process, started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer close(p.gone)
	err := p.cmd.Start()
	started <- err
	if err == nil {
		// The exit status does not matter: the process was killed, or its log contains the reason.
		_ = p.cmd.Wait()
	}
}

func (p *process) kill() {
	// An error means that the process is gone already.
	_ = p.cmd.Process.Kill()
	<-p.gone
	_ = p.log.Close()
}

// errPortTaken means that another program got the port first.
var errPortTaken = errors.New("port is taken")

// ready waits until this very process, and no other on its port, answers with its data loaded.
func (p *process) ready(addr, password string) error {
	deadline := time.Now().Add(readyWithin)
	for {
		pid, err := ask(addr, password)
		switch {
		case err == nil && pid == p.cmd.Process.Pid:
			return nil
		case err == nil:
			return fmt.Errorf("%s: %w by process %d", addr, errPortTaken, pid)
		}
		select {
		case <-p.gone:
			log := p.output()
			if strings.Contains(log, "Address already in use") {
				return fmt.Errorf("%s: %w", addr, errPortTaken)
			}
			return fmt.Errorf("server exited while starting:\n%s", log)
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s does not answer within %s: %w\n%s", addr, readyWithin, err, p.output())
		}
	}
}

// output returns the end of the server's output. It works after the file was deleted.
func (p *process) output() string {
	const most = 8 << 10
	info, err := p.log.Stat()
	if err != nil {
		return err.Error()
	}
	from := max(0, info.Size()-most)
	text, err := io.ReadAll(io.NewSectionReader(p.log, from, most))
	if err != nil {
		return err.Error()
	}
	return string(text)
}
