package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"time"
)

// process is a server that this process starts and that ends with it.
type process struct {
	cmd    *exec.Cmd
	signal os.Signal
	gone   chan struct{} // closed when it has ended
}

// startProcess starts a command that the signal ends.
func startProcess(cmd *exec.Cmd, signal os.Signal) (*process, error) {
	p := &process{cmd: cmd, signal: signal, gone: make(chan struct{})}
	endWithParent(cmd)
	started := make(chan error)
	go func() {
		// The kernel ends the process together with the thread that started it, which this keeps.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.gone)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // its output shows how it ended
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// stop ends the process, after a while by force.
func (p *process) stop(within time.Duration) error {
	_ = p.cmd.Process.Signal(p.signal) // an error means that it has ended
	select {
	case <-p.gone:
		return nil
	case <-time.After(within):
	}
	_ = p.cmd.Process.Kill()
	<-p.gone
	return fmt.Errorf("%s has not ended within %s after a signal", p.cmd.Path, within)
}
