package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// endWithParent makes the kernel kill the process when the thread that started it ends.
func endWithParent(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
}

// asUser lets a process run as another user.
func asUser(cmd *exec.Cmd, uid, gid uint32) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: gid}
}

// clockTick is the unit of processor time in /proc, which is the same on all Linux systems.
const clockTick = time.Second / 100

// usage is the processor time of this process and, together, of all that it has started: its servers.
func usage() (own, servers time.Duration, err error) {
	self := os.Getpid()
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return 0, 0, err
	}
	type one struct {
		parent int
		used   time.Duration
	}
	all := make(map[int]one)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // it has ended
		}
		if err != nil {
			return 0, 0, err
		}
		pid, parent, used, err := parseStat(string(text))
		if err != nil {
			return 0, 0, fmt.Errorf("%s: %w", name, err)
		}
		all[pid] = one{parent, used}
	}
	for pid, p := range all {
		if pid == self {
			own = p.used
			continue
		}
		for at := p.parent; at != 0; at = all[at].parent {
			if at == self {
				servers += p.used
				break
			}
		}
	}
	return own, servers, nil
}

// parseStat reads a line of /proc/<pid>/stat: the fields 14 and 15 are user and system time.
func parseStat(text string) (pid, parent int, used time.Duration, err error) {
	before, rest, found := strings.Cut(text, " (")
	end := strings.LastIndex(rest, ") ")
	if !found || end < 0 {
		return 0, 0, 0, fmt.Errorf("unexpected line %q", text)
	}
	fields := strings.Fields(rest[end+2:])
	if len(fields) < 13 {
		return 0, 0, 0, fmt.Errorf("unexpected line %q", text)
	}
	var faults [4]error
	pid, faults[0] = strconv.Atoi(before)
	parent, faults[1] = strconv.Atoi(fields[1])
	user, fault := strconv.Atoi(fields[11])
	faults[2] = fault
	system, fault := strconv.Atoi(fields[12])
	faults[3] = fault
	return pid, parent, time.Duration(user+system) * clockTick, errors.Join(faults[:]...)
}
