package submit

import (
	"fmt"
	"testing"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/keyspace"
)

// TestTrackedCompletions starts runs in a partition that is subscribed to, and waits for them later.
func TestTrackedCompletions(t *testing.T) {
	p, other := keyspace.Partition{Index: 1}, keyspace.Partition{Index: 2}
	l := newCompletionListener(new(engine.Session))
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
	begin := func(id enginecore.FlowID, p keyspace.Partition) { l.settle(id, l.track(id, p), true) }
	check := func(id enginecore.FlowID, expected bool, outcome, result string) {
		t.Helper()
		w, end := await(id)
		if w.tracked != expected || end.Outcome != outcome || string(end.Result) != result || end.HasResult != (result != "") {
			t.Errorf("flow %s: expected %t, %+v", id, w.tracked, end)
		}
	}

	begin("early", p)
	l.handle("early success {\"a\": 1}")
	check("early", true, "success", `{"a": 1}`)
	check("early", false, "unheard", "") // it was already taken

	begin("failed", p)
	l.handle("failed failed")
	check("failed", true, "failed", "")

	begin("rerun", p)
	l.handle("rerun success 1")
	l.handle("rerun reopened")
	check("rerun", true, "unheard", "")

	begin("running", p)
	check("running", true, "unheard", "")

	begin("existed", p)
	l.Untrack("existed")
	check("existed", false, "unheard", "")

	l.track("existing", p) // it may have ended before
	check("existing", false, "unheard", "")
	l.handle("existing success 1")
	check("existing", false, "unheard", "")

	// Two calls start a run at a time. The first one has started it, so its end is not missed.
	first := l.track("both", p)
	l.handle("both success 1")
	second := l.track("both", p)
	l.settle("both", first, true)
	check("both", true, "success", "1")
	l.settle("both", second, false)
	check("both", false, "unheard", "")
	// It was purged, and is started again: its former end does not count.
	begin("again", p)
	l.handle("again success 1")
	begin("again", p)
	check("again", true, "unheard", "")
	// The call that has found it forgets it before a third one comes, so the end may have come in between.
	first = l.track("three", p)
	l.settle("three", l.track("three", p), false)
	l.handle("three success 1")
	l.track("three", p)
	l.settle("three", first, true)
	check("three", false, "unheard", "")

	begin("elsewhere", other) // the client is not subscribed to that partition yet
	if _, tracked := l.tracked["elsewhere"]; tracked {
		t.Error("a flow of a partition that is not subscribed to is tracked")
	}

	begin("lost", p)
	l.resync()
	check("lost", false, "unheard", "")

	begin("oldest", p)
	for i := range maxTracked {
		begin(enginecore.FlowID(fmt.Sprint(i)), p)
	}
	check("oldest", false, "unheard", "")
	if len(l.trackOrder) != maxTracked || len(l.tracked) != maxTracked {
		t.Errorf("%d and %d flows are kept", len(l.trackOrder), len(l.tracked))
	}
}

// TestCompletionOfEarlierRunIsIgnored runs a flow again while the message of its former end is still under way.
func TestCompletionOfEarlierRunIsIgnored(t *testing.T) {
	p := keyspace.Partition{Index: 1}
	l := newCompletionListener(new(engine.Session))
	defer l.close()
	ready := make(chan struct{})
	close(ready)
	l.subscribed[p] = ready
	receives := func(before func(), messages ...string) string {
		t.Helper()
		before()
		w, err := l.Wait(t.Context(), "f", p)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Release(w)
		for _, message := range messages {
			l.handle(message)
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
			t.Errorf("received %s, want %s", got, want)
		}
	}
	reopen := func() {
		if err := l.BeginRerun(t.Context(), "f", p); err != nil {
			t.Fatal(err)
		}
	}
	check("nothing", receives(reopen, "f success 1", "f reopened"))
	check("2", receives(func() {}, "f success 2"))
	check("2", receives(reopen, "f success 1", "f reopened", "f success 2"))
	check("1", receives(func() { reopen(); l.AbortRerun("f") }, "f success 1"))
	check("", receives(reopen, "f success 1", "f reopened", "f failed"))
	check("1", receives(func() { reopen(); l.resync() }, "f success 1"))
}
