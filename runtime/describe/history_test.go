package describe_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/runtime/describe"
	"github.com/flowfabric/flowfabric-go/runtime/runevent"
)

var begin = time.UnixMilli(1_763_806_400_000)

// attempts are those of node n, after events one second apart.
func attempts(events ...runevent.Event) []describe.Attempt {
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
		events []runevent.Event
		want   []describe.Attempt
	}{
		{"a failure and its retry", []runevent.Event{
			{Kind: runevent.Started, Attempt: 1, Detail: "w1"},
			{Kind: runevent.Progress, Attempt: 1, Percent: 50, Message: "half"},
			{Kind: runevent.Retry, Attempt: 1, Detail: "no route"},
			{Kind: runevent.Started, Attempt: 2, Detail: "w2"},
			{Kind: runevent.Succeeded, Attempt: 2},
		}, []describe.Attempt{
			{Number: 1, Worker: "w1", Begun: at(0), Ended: at(2), Outcome: describe.Failed, Error: "no route", Percent: 50, Message: "half"},
			{Number: 2, Worker: "w2", Begun: at(3), Ended: at(4), Outcome: describe.Succeeded},
		}},
		{"a lost worker", []runevent.Event{
			{Kind: runevent.Started, Attempt: 1, Detail: "w1"}, {Kind: runevent.LeaseExpired, Attempt: 1},
			{Kind: runevent.Reclaimed, Attempt: 2, Detail: "w2"},
		}, []describe.Attempt{
			{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: describe.WorkerLost},
			{Number: 2, Worker: "w2", Begun: at(2)},
		}},
		{"a lost worker of which nothing was told", []runevent.Event{
			{Kind: runevent.Started, Attempt: 1, Detail: "w1"}, {Kind: runevent.Reclaimed, Attempt: 2, Detail: "w2"},
		}, []describe.Attempt{
			{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: describe.WorkerLost},
			{Number: 2, Worker: "w2", Begun: at(1)},
		}},
		{"a wait in between", []runevent.Event{
			{Kind: runevent.Started, Attempt: 1, Detail: "w1"}, {Kind: runevent.Suspended, Attempt: 1},
			{Kind: runevent.Signalled, Attempt: 1, Detail: "yes"}, {Kind: runevent.Resumed, Attempt: 1, Detail: "w2"},
			{Kind: runevent.Suspended, Attempt: 1},
		}, []describe.Attempt{{Number: 1, Worker: "w2", Begun: at(0), Aside: runevent.Suspended}}},
		{"a rerun", []runevent.Event{
			{Kind: runevent.Started, Attempt: 1, Detail: "w1"}, {Kind: runevent.Failed, Attempt: 1, Detail: "no"},
			{Kind: runevent.Replayed}, {Kind: runevent.Started, Attempt: 2, Detail: "w1"},
		}, []describe.Attempt{
			{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: describe.Failed, Error: "no"},
			{Number: 2, Replay: 1, Worker: "w1", Begun: at(3)},
		}},
		{"a log without its beginning", []runevent.Event{{Kind: runevent.Succeeded, Attempt: 3}},
			[]describe.Attempt{{Number: 3, Ended: at(0), Outcome: describe.Succeeded}}},
		{"the end of a node that nothing has begun", []runevent.Event{{Kind: runevent.Cancelled, Detail: "enough"}}, nil},
		{"a node that was skipped", []runevent.Event{{Kind: runevent.Skipped}}, nil},
		{"a cancel between two attempts", []runevent.Event{
			{Kind: runevent.Started, Attempt: 1, Detail: "w1"}, {Kind: runevent.Retry, Attempt: 1, Detail: "no"},
			{Kind: runevent.Cancelled, Detail: "enough"},
		}, []describe.Attempt{{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: describe.Failed, Error: "no"}}},
		{"the end of a node after its attempt", []runevent.Event{
			{Kind: runevent.Started, Attempt: 1, Detail: "w1"}, {Kind: runevent.Retry, Attempt: 1, Detail: "no"},
			{Kind: runevent.Cancelled, Attempt: 1, Detail: "enough"},
		}, []describe.Attempt{{Number: 1, Worker: "w1", Begun: at(0), Ended: at(1), Outcome: describe.Failed, Error: "no"}}},
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
	var events []runevent.Event
	for i := range 3 * describe.MaxAttempts {
		events = append(events, runevent.Event{Kind: runevent.Started, Attempt: i + 1}, runevent.Event{Kind: runevent.Retry, Attempt: i + 1})
	}
	list := attempts(events...)
	require.Len(t, list, describe.MaxAttempts)
	require.Equal(t, 2*describe.MaxAttempts+1, list[0].Number)
}

// A value says of itself what it is.
func TestValueAsJSON(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		value describe.Value
		want  string
	}{
		{describe.Value{Codec: "json", Size: 30, Data: []byte(`{"z":12345678901234567890,"a":1}`)},
			`{"codec":"json","size":30,"json":{"z":12345678901234567890,"a":1}}`},
		{describe.Value{Codec: "json", Size: 9, Data: []byte(`{"z`), Truncated: true},
			`{"codec":"json","size":9,"truncated":true,"text":"{\"z"}`},
		{describe.Value{Codec: "gob", Size: 2, Data: []byte{1, 2}}, `{"codec":"gob","size":2,"data":"AQI="}`},
	} {
		data, err := json.Marshal(&test.value)
		require.NoError(t, err)
		require.Equal(t, test.want, string(data))
	}
}
