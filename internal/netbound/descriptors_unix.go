//go:build unix

package netbound

import (
	"math"
	"syscall"
)

// descriptors returns how many files and connections this process may have open.
func descriptors() int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt
	}
	if limit.Cur > math.MaxInt32 {
		return math.MaxInt32
	}
	return int(limit.Cur) // the type differs between systems
}
