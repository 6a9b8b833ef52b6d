package keeper

import (
	"errors"
	"syscall"
	"time"
)

// hasPause reports that pauseThread ends more exactly than a timer.
const hasPause = true

// pauseThread lets the current thread rest, while other goroutines run on others. It ends within about 0.1 ms of its
// time on a machine that is not busy.
func pauseThread(d time.Duration) {
	left := syscall.NsecToTimespec(d.Nanoseconds())
	for {
		if err := syscall.Nanosleep(&left, &left); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}
