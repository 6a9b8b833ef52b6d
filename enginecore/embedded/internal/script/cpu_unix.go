//go:build unix

package script

import (
	"syscall"
	"time"
)

// processorTime is the processor time that all threads of this process have used so far, or 0 when the system does not
// report it.
func processorTime() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
