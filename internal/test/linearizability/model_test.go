package linearizability

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// at is a call with its outcome, which began and ended at a time.
type at struct {
	from, until int64
	call        Call
	outcome     Outcome
}

func history(calls ...at) *History {
	h := NewHistory(false)
	for i, c := range calls {
		c.call.Run = "one"
		h.add(i, c.call, c.outcome, c.from, c.until)
	}
	return h
}

func starts(input int) Call                { return Call{Kind: Start, Input: input} }
func signals(key string, payload int) Call { return Call{Kind: Signal, Key: key, Payload: payload} }

var (
	cancels   = Call{Kind: Cancel}
	describes = Call{Kind: Describe}
	results   = Call{Kind: Result}
)

func code(c Code) Outcome               { return Outcome{Code: c} }
func running(received int) Outcome      { return Outcome{Code: Running, Received: received} }
func duplicate(first Code) Outcome      { return Outcome{Code: Duplicate, First: first} }
func succeeded(payloads ...int) Outcome { return Outcome{Code: Succeeded, Payloads: encode(payloads)} }

// Histories that a correct engine can produce are accepted.
func TestChecker_AcceptsCorrectHistories(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]*History{
		"one after the other": history(
			at{1, 2, describes, code(NotFound)}, at{3, 4, signals("a", 1), code(NotFound)}, at{5, 6, starts(1), code(Done)},
			at{7, 8, starts(1), code(Existed)}, at{9, 10, starts(2), code(OtherInput)}, at{11, 12, signals("a", 1), code(Accepted)},
			at{13, 14, signals("a", 1), duplicate(Accepted)}, at{15, 16, signals("b", 2), code(Accepted)}, at{17, 18, describes, running(2)},
			at{19, 20, signals("c", 3), code(Resumed)}, at{21, 22, cancels, code(Over)}, at{23, 24, signals("d", 4), code(Closed)},
			at{25, 26, signals("c", 3), duplicate(Resumed)}, at{27, 28, results, succeeded(1, 2, 3)},
		),
		"starts together":                 history(at{1, 5, starts(1), code(OtherInput)}, at{2, 6, starts(2), code(Done)}),
		"an unknown start had its effect": history(at{1, 0, starts(1), code(Unknown)}, at{2, 3, describes, code(NotFound)}, at{4, 5, describes, running(0)}),
		"an unknown start had none":       history(at{1, 0, starts(1), code(Unknown)}, at{2, 3, starts(2), code(Done)}, at{4, 5, starts(1), code(OtherInput)}),
		"an unknown signal comes late": history(at{1, 2, starts(1), code(Done)}, at{3, 0, signals("a", 1), code(Unknown)},
			at{4, 5, signals("b", 2), code(Accepted)}, at{6, 7, describes, running(1)}, at{8, 9, describes, running(2)},
			at{10, 11, signals("c", 3), code(Resumed)}, at{12, 13, results, succeeded(2, 1, 3)}),
		"cancelled twice": history(at{1, 2, starts(1), code(Done)}, at{3, 4, cancels, code(Done)}, at{5, 6, cancels, code(Done)},
			at{7, 8, signals("a", 1), code(Closed)}, at{9, 10, describes, code(Cancelled)}),
	} {
		require.Empty(t, h.Faults(), name)
	}
}

// A call that is sent again after its reply was lost may find the run that it has started, but no two calls start one.
func TestHistoriesWithLostReplies(t *testing.T) {
	t.Parallel()
	h := history(at{1, 2, starts(1), code(Existed)}, at{3, 4, describes, running(0)})
	require.Len(t, h.Faults(), 1)
	h.repliesLost = true
	require.Empty(t, h.Faults())
	h = history(at{1, 2, starts(1), code(Existed)}, at{3, 4, starts(1), code(Done)})
	h.repliesLost = true
	require.Len(t, h.Faults(), 1)
}

// Histories of engines that break a promise are rejected.
func TestHistoriesOfBrokenEngines(t *testing.T) {
	t.Parallel()
	started := at{1, 2, starts(1), code(Done)}
	for name, h := range map[string]*History{
		"an acknowledged start is lost": history(started, at{3, 4, describes, code(NotFound)}),
		"two starts made the run":       history(started, at{3, 4, starts(1), code(Done)}),
		"another input was taken":       history(started, at{3, 4, starts(2), code(Existed)}),
		"an acknowledged signal is lost": history(started, at{3, 4, signals("a", 1), code(Accepted)},
			at{5, 6, describes, running(0)}),
		"the result lacks a signal": history(started, at{3, 4, signals("a", 1), code(Accepted)}, at{5, 6, signals("b", 2), code(Accepted)},
			at{7, 8, signals("c", 3), code(Resumed)}, at{9, 10, results, succeeded(1, 3)}),
		"the result has another order": history(started, at{3, 4, signals("a", 1), code(Accepted)}, at{5, 6, signals("b", 2), code(Accepted)},
			at{7, 8, signals("c", 3), code(Resumed)}, at{9, 10, results, succeeded(2, 1, 3)}),
		"a signal counted twice": history(started, at{3, 4, signals("a", 1), code(Accepted)}, at{5, 6, signals("a", 1), code(Accepted)}),
		"two signals ended the wait": history(started, at{3, 4, signals("a", 1), code(Accepted)}, at{5, 6, signals("b", 2), code(Accepted)},
			at{7, 8, signals("c", 3), code(Resumed)}, at{9, 10, signals("d", 4), code(Resumed)}),
		"a cancel was undone":       history(started, at{3, 4, cancels, code(Done)}, at{5, 6, describes, running(0)}),
		"a cancelled run took more": history(started, at{3, 4, cancels, code(Done)}, at{5, 6, signals("a", 1), code(Accepted)}),
		"a reading went back": history(started, at{3, 20, signals("a", 1), code(Accepted)}, at{4, 5, describes, running(1)},
			at{6, 7, describes, running(0)}),
		"an unknown signal went back": history(started, at{3, 0, signals("a", 1), code(Unknown)}, at{4, 5, describes, running(1)},
			at{6, 7, describes, running(0)}),
	} {
		require.Len(t, h.Faults(), 1, name)
	}
}
