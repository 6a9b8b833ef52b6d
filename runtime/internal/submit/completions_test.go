package submit

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// TestTrackedCompletions starts runs in a partition that is subscribed to, and waits for them later.
func TestTrackedCompletions(t *testing.T) {
	p, other := enginecore.Partition{Index: 1}, enginecore.Partition{Index: 2}
	l := newCompletionListener(nil)
	defer l.close()
	ready := make(chan struct{})
	close(ready)
	l.subscribed[p] = ready
	l.subscribed[other] = make(chan struct{})
	await := func(id enginecore.FlowID) (CompletionWait, RunCompletion) {
		t.Helper()
		w, err := l.Wait(t.Context(), id, p)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release(w)
		select {
		case end := <-w.Completed:
			return w, end
		default:
			return w, RunCompletion{Outcome: "unheard"}
		}
	}
	check := func(id enginecore.FlowID, expected bool, outcome, result string) {
		t.Helper()
		w, end := await(id)
		if w.tracked != expected || end.Outcome != outcome || string(end.Result) != result || end.HasResult != (result != "") {
			t.Errorf("flow %s: expected %t, %+v", id, w.tracked, end)
		}
	}

	l.track("early", p)
	l.Deliver(parseCompletion("early success {\"a\": 1}"))
	check("early", true, "success", `{"a": 1}`)
	check("early", false, "unheard", "") // it was asked for

	l.track("failed", p)
	l.Deliver(parseCompletion("failed failed"))
	check("failed", true, "failed", "")

	l.track("rerun", p)
	l.Deliver(parseCompletion("rerun success 1"))
	l.Deliver(parseCompletion("rerun reopened"))
	check("rerun", true, "unheard", "")

	l.track("running", p)
	check("running", true, "unheard", "")

	l.track("existed", p)
	l.Untrack("existed")
	check("existed", false, "unheard", "")

	l.track("elsewhere", other) // nobody hears that partition yet
	if _, tracked := l.tracked["elsewhere"]; tracked {
		t.Error("a flow of a partition that is not subscribed to is tracked")
	}

	l.track("lost", p)
	l.resync()
	check("lost", false, "unheard", "")

	l.track("oldest", p)
	for i := range maxTracked {
		l.track(enginecore.FlowID(fmt.Sprint(i)), p)
	}
	check("oldest", false, "unheard", "")
	if len(l.trackOrder) != maxTracked || len(l.tracked) != maxTracked {
		t.Errorf("%d and %d flows are kept", len(l.trackOrder), len(l.tracked))
	}
}

// TestFormerCompletions runs a flow again while the message of its former end is still under way.
func TestFormerCompletions(t *testing.T) {
	p := enginecore.Partition{Index: 1}
	l := newCompletionListener(nil)
	defer l.close()
	ready := make(chan struct{})
	close(ready)
	l.subscribed[p] = ready
	hears := func(before func(), messages ...string) string {
		t.Helper()
		before()
		w, err := l.Wait(t.Context(), "f", p)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release(w)
		for _, message := range messages {
			l.Deliver(parseCompletion(message))
		}
		select {
		case end := <-w.Completed:
			return string(end.Result)
		default:
			return "nothing"
		}
	}
	check := func(want, got string) {
		t.Helper()
		if want != got {
			t.Errorf("heard %s, want %s", got, want)
		}
	}
	reopen := func() {
		if err := l.BeginRerun(t.Context(), "f", p); err != nil {
			t.Fatal(err)
		}
	}
	check("nothing", hears(reopen, "f success 1", "f reopened"))
	check("2", hears(func() {}, "f success 2"))
	check("2", hears(reopen, "f success 1", "f reopened", "f success 2"))
	check("1", hears(func() { reopen(); l.AbortRerun("f") }, "f success 1"))
	check("", hears(reopen, "f success 1", "f reopened", "f failed"))
	check("1", hears(func() { reopen(); l.resync() }, "f success 1"))
}

// TestBatchedCompletions splits messages about several runs.
func TestBatchedCompletions(t *testing.T) {
	read := func(message string) (list []string) {
		for one := range splitCompletions(message) {
			list = append(list, one)
		}
		return list
	}
	for message, want := range map[string][]string{
		"a success 1":                       {"a success 1"},
		"many 9 a success10 b failed 1":     {"a success", "b failed 1"},
		"many 15 a success 2 b c8 b failed": {"a success 2 b c", "b failed"},
		"many 12 a success \n\n8 b failed":  {"a success \n\n", "b failed"},
		"many ":                             nil,
		"many 9 a success99 b failed":       {"a success"}, // cut off
		"many 9 a success-1 b failed":       {"a success"},
		"many 9 a success8 b failedx":       {"a success", "b failed"},
	} {
		if got := read(message); !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", message, got, want)
		}
	}
}
