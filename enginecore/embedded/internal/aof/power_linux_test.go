package aof

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/randseed"
)

// powerCut runs a log on a powerDisk and cuts the power before each operation.
type powerCut struct {
	t      *testing.T
	policy Policy
	random *rand.Rand
	parent string
	// written are all words in their order; `told` is the number of acknowledged ones.
	written []string
	told    atomic.Int64
	// depth is how often the power may fail again while the log is opened.
	depth int
	// states counts the checked directories, ahead those with more than the acknowledged words.
	states, ahead int
	refused       int // directories that had to be cut by the test
}

// cuts checks directories that a cut at this moment leaves. A goroutine of the log may call it.
func (c *powerCut) cuts(d *powerDisk, mixes int) {
	for how := range cutMixed + mixes {
		into, err := os.MkdirTemp(c.parent, "cut-")
		if err == nil {
			err = d.cut(min(how, cutMixed), c.random, into)
		}
		if err == nil {
			before := describe(into)
			if err = c.check(into, how == cutMixed); err != nil {
				err = fmt.Errorf("%w\nafter a cut with %d of %d acknowledged:\n%s", err, c.told.Load(), len(c.written), before)
			}
		}
		if err != nil && !c.t.Failed() { // the first one is enough
			c.t.Error(err)
		}
		if err := os.RemoveAll(into); err != nil {
			c.t.Error(err)
		}
	}
}

// check opens a directory after a power cut: it opens with all acknowledged words and a prefix of the others, and opens
// again. With again, the power is also cut while it opens.
func (c *powerCut) check(dir string, again bool) error {
	c.states++
	told := int(c.told.Load())
	if c.policy != Always {
		told = 0 // by then, nothing need be on disk
	}
	inner := &powerCut{t: c.t, policy: c.policy, random: c.random, parent: c.parent, written: c.written, depth: c.depth - 1}
	inner.told.Store(int64(told))
	var fault func(Op, string) error
	if again && c.depth > 0 {
		d := newPowerDisk(c.t, dir, true)
		d.at = func(int, Op) { inner.cuts(d, 2) }
		fault = d.fault
	}
	got, err := c.open(dir, fault)
	var damage *CorruptError
	if c.policy == Never && errors.As(err, &damage) && damage.Offset > 0 {
		// Such a log does not record which data was synced, so a bad record before a good one may be damage. The remedy
		// in the error suffices.
		c.refused++
		if err = os.Truncate(damage.Path, damage.Offset); err == nil {
			got, err = c.open(dir, nil)
		}
	}
	if err != nil {
		return err
	}
	if len(got) < told || len(got) > len(c.written) || !slices.Equal(got, c.written[:len(got)]) {
		return fmt.Errorf("%d words are there, or others: %.300q", len(got), got)
	}
	if len(got) > told {
		c.ahead++
	}
	same, err := c.open(dir, nil)
	if err != nil || !slices.Equal(got, same) {
		return fmt.Errorf("opened once more, it has %d words instead of %d: %w", len(same), len(got), err)
	}
	c.states += inner.states
	c.ahead += inner.ahead
	c.refused += inner.refused
	return nil
}

// open opens and closes a directory and returns its words.
func (c *powerCut) open(dir string, fault func(Op, string) error) ([]string, error) {
	data := &wordList{}
	o := Options{Dir: dir, Policy: c.policy, Limit: 1 << 20, Logger: slog.New(slog.DiscardHandler), Fault: fault}
	log, err := Open(context.Background(), o, data)
	if err != nil {
		return nil, err
	}
	return data.words, log.Close()
}

// TestPowerCuts cuts the power before each operation of a log, including snapshots, and opens the directories that this
// may leave on a disk that keeps synced data, and of the rest any sectors and any entries of the directory in any
// order. All acknowledged words exist, and a prefix of the others.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	for _, policy := range []Policy{Always, EverySecond, Never} {
		t.Run(policy.word(), func(t *testing.T) {
			t.Parallel()
			states, ahead, refused := 0, 0, 0
			for seed := range randseed.Trials(t, 2) {
				c := &powerCut{t: t, policy: policy, random: rand.New(rand.NewPCG(seed, 7)), parent: fastDir(t), depth: 1}
				c.run(rand.New(rand.NewPCG(seed, 8)))
				states, ahead, refused = states+c.states, ahead+c.ahead, refused+c.refused
			}
			t.Logf("%d directories, of which %d had more than the acknowledged words, and %d were cut by hand", states, ahead, refused)
			require.NotZero(t, ahead, "no cut was within unsynced data, so the test proves nothing")
		})
	}
}

// run writes words, several of them at once, and sometimes starts a new log after a snapshot. The cuts have their own
// random numbers, since goroutines of the log make them.
func (c *powerCut) run(random *rand.Rand) {
	dir := filepath.Join(c.parent, "data")
	d := newPowerDisk(c.t, dir, false)
	d.at = func(int, Op) { c.cuts(d, 3) }
	data := &wordList{}
	o := Options{
		Dir: dir, Policy: c.policy, Limit: 1 << 40, Logger: slog.New(slog.DiscardHandler), RetryPause: time.Millisecond, Fault: d.fault,
	}
	log, err := Open(context.Background(), o, data)
	require.NoError(c.t, err)
	data.log = log
	for round := range 4 {
		for range 1 + random.IntN(3) {
			// Some are small, some have several sectors.
			word := fmt.Sprint(len(c.written), strings.Repeat("x", random.IntN(4)*random.IntN(700)))
			d.mu.Lock() // no cut sees a word that the list of them lacks
			c.written = append(c.written, word)
			d.mu.Unlock()
			require.NoError(c.t, data.add(word))
		}
		if round%2 == 1 {
			data.Lock()
			log.Rewrite()
			data.Unlock()
		}
		require.NoError(c.t, log.Wait(context.Background(), log.End()))
		c.told.Store(int64(len(c.written)))
	}
	require.Eventually(c.t, func() bool { return !log.rewriting.Load() }, 5*time.Minute, time.Millisecond)
	require.NoError(c.t, log.Close())
	d.mu.Lock()
	c.cuts(d, 3)
	d.mu.Unlock()
}
