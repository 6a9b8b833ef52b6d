package describe_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/describe"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
)

var begin = time.UnixMilli(1_763_806_400_000)

// attempts returns the attempts of node n after events one second apart.
func attempts(events ...fabrictype.Event) []fabrictype.Attempt {
	var h describe.History
	for i, e := range events {
		e.Node, e.At = "n", begin.Add(time.Duration(i)*time.Second)
		h.Add(e)
	}
	return h.Attempts("n")
}

func at(second int) time.Time { return begin.Add(time.Duration(second) * time.Second) }

func TestHistory(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		events []fabrictype.Event
		want   []fabrictype.Attempt
	}{
		{"a failure and its retry", []fabrictype.Event{
			{Kind: fabrictype.EventStarted, Attempt: 1, Detail: "w1"},
			{Kind: fabrictype.EventProgress, Attempt: 1, Percent: 50, Message: "half"},
			{Kind: fabrictype.EventRetry, Attempt: 1, Detail: "no route"},
			{Kind: fabrictype.EventStarted, Attempt: 2, Detail: "w2"},
			{Kind: fabrictype.EventSucceeded, Attempt: 2},
		}, []fabrictype.Attempt{
			{Number: 1, Worker: "w1", Begun: at(0), Ended: at(2), Outcome: fabrictype.OutcomeFailed, Error: "no route", Percent: 50, Message: "half"},
			{Number: 2, Worker: "w2", Begun: at(3), Ended: at(4), Outcome: fabrictype.OutcomeSucceeded},
		}},
		{"a lost worker", []fabrictype.Event{
			{Kind: fabrictype.EventStarted, Attempt: 1, Detail: "w1"}, {Kind: eventkind.LeaseExpired, Attempt: 1},
			{Kind: eventkind.Reclaimed, Attempt: 2, Detail: "w2"},
		}, []fabrictype.Attempt{
			{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: fabrictype.OutcomeWorkerLost},
			{Number: 2, Worker: "w2", Begun: at(2)},
		}},
		{"a lost worker of which nothing was told", []fabrictype.Event{
			{Kind: fabrictype.EventStarted, Attempt: 1, Detail: "w1"}, {Kind: eventkind.Reclaimed, Attempt: 2, Detail: "w2"},
		}, []fabrictype.Attempt{
			{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: fabrictype.OutcomeWorkerLost},
			{Number: 2, Worker: "w2", Begun: at(1)},
		}},
		{"a wait in between", []fabrictype.Event{
			{Kind: fabrictype.EventStarted, Attempt: 1, Detail: "w1"}, {Kind: fabrictype.EventSuspended, Attempt: 1},
			{Kind: fabrictype.EventSignalled, Attempt: 1, Detail: "yes"}, {Kind: eventkind.Resumed, Attempt: 1, Detail: "w2"},
			{Kind: fabrictype.EventSuspended, Attempt: 1},
		}, []fabrictype.Attempt{{Number: 1, Worker: "w2", Begun: at(0), Aside: fabrictype.EventSuspended}}},
		{"a rerun", []fabrictype.Event{
			{Kind: fabrictype.EventStarted, Attempt: 1, Detail: "w1"}, {Kind: fabrictype.EventFailed, Attempt: 1, Detail: "no"},
			{Kind: eventkind.Replayed}, {Kind: fabrictype.EventStarted, Attempt: 2, Detail: "w1"},
		}, []fabrictype.Attempt{
			{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: fabrictype.OutcomeFailed, Error: "no"},
			{Number: 2, Replay: 1, Worker: "w1", Begun: at(3)},
		}},
		{"a log without its beginning", []fabrictype.Event{{Kind: fabrictype.EventSucceeded, Attempt: 3}},
			[]fabrictype.Attempt{{Number: 3, Ended: at(0), Outcome: fabrictype.OutcomeSucceeded}}},
		{"the end of a node that nothing has begun", []fabrictype.Event{{Kind: fabrictype.EventCancelled, Detail: "enough"}}, nil},
		{"a node that was skipped", []fabrictype.Event{{Kind: fabrictype.EventSkipped}}, nil},
		{"a cancel between two attempts", []fabrictype.Event{
			{Kind: fabrictype.EventStarted, Attempt: 1, Detail: "w1"}, {Kind: fabrictype.EventRetry, Attempt: 1, Detail: "no"},
			{Kind: fabrictype.EventCancelled, Detail: "enough"},
		}, []fabrictype.Attempt{{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: fabrictype.OutcomeFailed, Error: "no"}}},
		{"the end of a node after its attempt", []fabrictype.Event{
			{Kind: fabrictype.EventStarted, Attempt: 1, Detail: "w1"}, {Kind: fabrictype.EventRetry, Attempt: 1, Detail: "no"},
			{Kind: fabrictype.EventCancelled, Attempt: 1, Detail: "enough"},
		}, []fabrictype.Attempt{{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: fabrictype.OutcomeFailed, Error: "no"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, test.want, attempts(test.events...))
		})
	}
}

// Of many attempts the last ones are kept.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	var events []fabrictype.Event
	for i := range 3 * describe.MaxAttempts {
		events = append(events, fabrictype.Event{Kind: fabrictype.EventStarted, Attempt: i + 1}, fabrictype.Event{Kind: fabrictype.EventRetry, Attempt: i + 1})
	}
	list := attempts(events...)
	require.Len(t, list, describe.MaxAttempts)
	require.Equal(t, 2*describe.MaxAttempts+1, list[0].Number)
}
