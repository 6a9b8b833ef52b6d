// Package randseed chooses the seeds of tests that make random moves. A test that has passed must not fail the next
// time on the same code, so its seeds are fixed: they follow from its name. Long runs of tests search for cases that
// the fixed seeds do not reach.
package randseed

import (
	"hash/fnv"
	"iter"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Env names the variable that repeats a failure: all random moves of a test then follow its value.
const Env = "FLOWFABRIC_SEED"

// soak is set for long runs of tests, whose seeds are new each time.
const soak = "FLOWFABRIC_SOAK"

// Of returns the seed of the i-th trial of a test, which is the same on each engine. It reports the seed when the test fails.
func Of(t testing.TB, i int) uint64 {
	t.Helper()
	seed, fixed := Fixed()
	switch {
	case fixed:
	case os.Getenv(soak) != "":
		seed = rand.Uint64()
	default:
		// The name of the test without the names of its subtests, such as engines.
		name, _, _ := strings.Cut(t.Name(), "/")
		h := fnv.New64a()
		h.Write([]byte(name + "/" + strconv.Itoa(i)))
		seed = h.Sum64()
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("%s=%d", Env, seed)
		}
	})
	return seed
}

// longTime is how long FLOWFABRIC_SOAK repeats a test where it names no duration.
const longTime = 5 * time.Minute

// Trials yields the seeds of a test that repeats random trials: as many as given, so that the test tries the same on a
// fast and on a slow machine. With FLOWFABRIC_SOAK there are new ones until the duration that it names is over, with
// FLOWFABRIC_SEED there is that one alone. A failure ends them.
func Trials(t testing.TB, count int) iter.Seq[uint64] {
	t.Helper()
	text := os.Getenv(soak)
	duration, err := time.ParseDuration(text)
	if err != nil {
		duration = longTime
	}
	if _, fixed := Fixed(); fixed {
		text, count = "", 1
	}
	end := time.Now().Add(duration)
	return func(yield func(uint64) bool) {
		for i := 0; !t.Failed(); i++ {
			if text == "" && i >= count || text != "" && !time.Now().Before(end) || !yield(Of(t, i)) {
				return
			}
		}
	}
}

// Fixed returns the seed that the environment names, and whether it names one.
func Fixed() (seed uint64, is bool) {
	seed, err := strconv.ParseUint(os.Getenv(Env), 10, 64)
	return seed, err == nil
}
