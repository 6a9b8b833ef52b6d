package runtime

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// commitBench drives a line of completions of one spot by hand.
type commitBench struct {
	*commits
	at laneShard
}

func newCommitBench(enough int) commitBench {
	return commitBench{&commits{enough: enough, lines: make(map[laneShard]*commitLine)}, laneShard{lane: "default"}}
}

func (b commitBench) commit(bytes int) *commit {
	return &commit{task: &task{shard: b.at}, result: make([]byte, bytes)}
}

// wait puts so many completions behind the calls that are under way.
func (b commitBench) wait(t *testing.T, n int) []*commit {
	t.Helper()
	list := make([]*commit, n)
	for i := range list {
		list[i] = b.commit(1)
		require.False(t, b.goesAhead(list[i]))
	}
	return list
}

// sends tells which batch a completion was told to send; nil when it was told nothing.
func sends(one *commit) []*commit {
	select {
	case news := <-one.told:
		return news.batch
	default:
		return nil
	}
}

func requireBatch(t *testing.T, want, got []*commit) {
	t.Helper()
	require.True(t, slices.Equal(want, got), "%d wanted, got %d", len(want), len(got))
}

// A second call goes beside the one that is under way as soon as enough completions wait, but no third; whoever is behind
// goes when a call is over: with a call beside it only if enough wait, else at once.
func TestCommitsAbreast(t *testing.T) {
	b := newCommitBench(3)
	first := b.commit(1)
	require.True(t, b.goesAhead(first))
	requireBatch(t, []*commit{first}, b.takeWith(first))

	few := b.wait(t, 2)
	require.Nil(t, sends(few[0]))
	beside := append(few, b.wait(t, 1)...)
	requireBatch(t, beside, sends(beside[0]))

	third := b.wait(t, 4)
	require.Nil(t, sends(third[0]), "a third call at the same time")
	b.passOn(b.at)
	requireBatch(t, third, sends(third[0]))

	rest := b.wait(t, 2)
	b.passOn(b.at)
	require.Nil(t, sends(rest[0]), "too few for a call beside another")
	b.passOn(b.at)
	requireBatch(t, rest, sends(rest[0]))
	b.passOn(b.at)
	require.Empty(t, b.lines)
}

// A batch has bounds, and what is beyond them waits for the next call.
func TestCommitBatchBounds(t *testing.T) {
	b := newCommitBench(maxCommits)
	first := b.commit(1)
	require.True(t, b.goesAhead(first))
	large := b.commit(maxCommitBytes)
	require.False(t, b.goesAhead(large))
	requireBatch(t, []*commit{first}, b.takeWith(first)) // the result behind it is too large for the same call

	many := b.wait(t, maxCommits+1)
	requireBatch(t, []*commit{large}, sends(large))
	require.Nil(t, sends(many[0]), "two calls are under way")
	b.passOn(b.at)
	requireBatch(t, many[:maxCommits], sends(many[0]))
	b.passOn(b.at)
	b.passOn(b.at)
	requireBatch(t, many[maxCommits:], sends(many[maxCommits]))
}

// Workers with few slots wait for as many completions as a call should bring, those with many for half of what they may have.
func TestEnoughCommits(t *testing.T) {
	for slots, want := range map[int]int{1: 8, 16: 8, 20: 10, 32: 16, 1000: 16} {
		require.Equal(t, want, enoughCommits(slots), "%d slots", slots)
	}
}
