//go:build !linux

package keeper

import "time"

// hasPause reports that pauseThread ends more exactly than a timer, whose grain is finer here.
const hasPause = false

func pauseThread(time.Duration) {}
