//go:build !linux

package main

import (
	"errors"
	"os/exec"
	"time"
)

func endWithParent(*exec.Cmd) {}

// asUser is not needed where the command does not run as root.
func asUser(*exec.Cmd, uint32, uint32) {}

// usage is known on Linux only.
func usage() (own, servers time.Duration, err error) {
	return 0, 0, errors.New("the processor time of servers is measured on Linux only: use -idle-time 0")
}
