//go:build !linux

package testserver

import (
	"io"
	"syscall"
)

// endWithParent has no counterpart outside Linux: there a server outlives a test process that is
// killed.
func endWithParent() *syscall.SysProcAttr { return nil }

func claimPort(int) (io.Closer, error) { return nopCloser{}, nil }

type nopCloser struct{}

func (nopCloser) Close() error { return nil }
