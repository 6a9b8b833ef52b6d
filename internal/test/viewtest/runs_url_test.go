package viewtest

import (
	"errors"
	"net/url"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

func TestQueriesSurviveURLs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 8, 0, 0, 123456789, time.UTC)
	for _, q := range []runtime.RunQuery{
		{}, {Flow: "good", Children: true}, {States: []fabrictype.RunState{fabrictype.RunFailed, fabrictype.RunExpired}},
		{Tags: map[string]string{"customer.id": "7&8", "a.b=c": "", "team.näme": "x=y"}}, {Text: "50% of / it"},
		{Key: "customer 7&8 = ä", Queued: true},
		{CreatedFrom: at, CreatedBefore: at.Add(time.Hour), Sort: "created"},
		{FinishedFrom: at, FinishedBefore: at.Add(time.Nanosecond), Sort: "finished"},
	} {
		values, err := url.ParseQuery(q.Values().Encode())
		require.NoError(t, err)
		values.Set("cursor", "x")
		var got runtime.RunQuery
		err = got.ReadValues(values, "cursor")
		require.NoError(t, err)
		require.Equal(t, q, got)
	}
	var q runtime.RunQuery
	err := q.ReadValues(url.Values{"created_from": {"2026-11-20T09:00:00+01:00"}, "children": {"false"}})
	require.NoError(t, err)
	require.Equal(t, time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC), q.CreatedFrom.UTC())
	require.Equal(t, "created_from=2026-11-20T08%3A00%3A00Z", q.Values().Encode())
}

// All faults are returned at once, and an unknown parameter is a fault.
func TestFaultsOfQueriesInURLs(t *testing.T) {
	t.Parallel()
	err := new(runtime.RunQuery).ReadValues(url.Values{
		"sate": {"failed"}, "state": {"lost", "failed"}, "flow": {"a", "b"}, "created_from": {"yesterday"}, "tag.X": {"1"},
		"children": {"yes"}, "sort": {"up"}, "text": {"a\x00"}, "key": {"b\x00"}, "queued": {"2"}, "cursor": {"x"}, "finished_from": {},
	})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	for _, part := range []string{
		`parameter "sate" is unknown`, `state "lost"`, `parameter "flow": must be given once, not 2 times`, `"yesterday" is not a time`,
		`tags:`, `"yes" must be true or false`, `sort "up"`, `text "a\x00"`, `key "b\x00"`, `"2" must be true or false`, `parameter "cursor" is unknown`, `"finished_from": must be given once`,
	} {
		require.ErrorContains(t, err, part)
	}
	var joined interface{ Unwrap() []error }
	require.True(t, errors.As(err, &joined))
}

func TestWaitQueriesSurviveURLs(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 20, 8, 0, 0, 123456789, time.UTC)
	for _, q := range []runtime.WaitQuery{
		{}, {Flow: "order", Audience: "release managers"}, {Tags: map[string]string{"a.b": "x=y"}, Text: "50% of / it"},
		{From: at, Before: at.Add(time.Hour), Sort: "due"},
	} {
		values, err := url.ParseQuery(q.Values().Encode())
		require.NoError(t, err)
		values.Set("cursor", "x")
		var got runtime.WaitQuery
		err = got.ReadValues(values, "cursor")
		require.NoError(t, err)
		require.Equal(t, q, got)
	}
	err := new(runtime.WaitQuery).ReadValues(url.Values{
		"audience": {"a", "b"}, "before": {"today"}, "sort": {"up"}, "state": {"open"}, "tag.X": {"1"},
	})
	require.ErrorIs(t, err, runtime.ErrInvalid)
	for _, part := range []string{
		`parameter "audience": must be given once, not 2 times`, `"today" is not a time`, `sort "up"`, `parameter "state" is unknown`, "tags:",
	} {
		require.ErrorContains(t, err, part)
	}
}
