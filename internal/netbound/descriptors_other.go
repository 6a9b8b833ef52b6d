//go:build !unix

package netbound

import "math"

// descriptors returns how many files and connections this process may have open: no bound is known.
func descriptors() int { return math.MaxInt32 }
