package submit

import (
	"fmt"
	"testing"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// TestTrackedCompletions starts runs after the listener has subscribed, and waits for them later.
func TestTrackedCompletions(t *testing.T) {
	l := newCompletionListener(&engine.Session{Origin: "PROCESS1"})
	defer l.close()
	ready := make(chan struct{})
	l.subscribed = ready
	if l.Origin() != "" {
		t.Error("runs name a process that does not receive messages")
	}
	if number := l.track("ahead"); number != 0 {
		t.Error("a flow is tracked before messages arrive")
	}
	close(ready)
	if l.Origin() != "PROCESS1" {
		t.Error("runs do not name the process")
	}
	await := func(id enginecore.FlowID) (CompletionWait, RunCompletion) {
		t.Helper()
		w, err := l.Wait(t.Context(), id)
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
	begin := func(id enginecore.FlowID) { l.settle(id, l.track(id), true) }
	check := func(id enginecore.FlowID, expected bool, outcome, result string) {
		t.Helper()
		w, end := await(id)
		if w.tracked != expected || end.Outcome != outcome || string(end.Result) != result || end.HasResult != (result != "") {
			t.Errorf("flow %s: expected %t, %+v", id, w.tracked, end)
		}
	}

	begin("early")
	l.handle("early success {\"a\": 1}")
	check("early", true, "success", `{"a": 1}`)
	check("early", false, "unheard", "") // it was already taken

	begin("failed")
	l.handle("failed failed")
	check("failed", true, "failed", "")

	begin("rerun")
	l.handle("rerun success 1")
	l.handle("rerun reopened")
	check("rerun", false, "unheard", "")

	// The worker of the process has ended the run.
	begin("here")
	l.EndedHere("here", []byte("1"))
	check("here", true, "success", "1")
	begin("repeated")
	l.MayHaveEnded("repeated")
	check("repeated", false, "unheard", "")
	begin("rerunning")
	if _, err := l.BeginRerun(t.Context(), "rerunning"); err != nil {
		t.Fatal(err)
	}
	l.EndedHere("rerunning", []byte("1"))
	l.Untrack("rerunning")
	check("rerunning", false, "unheard", "")
	untracked, err := l.Wait(t.Context(), "untracked")
	if err != nil {
		t.Fatal(err)
	}
	l.EndedHere("untracked", []byte("1"))
	if end := <-untracked.Completed; end.Outcome != "" || end.HasResult {
		t.Errorf("a wait that queries the engine received %+v", end)
	}
	l.Release(untracked)

	begin("running")
	check("running", true, "unheard", "")

	begin("existed")
	l.Untrack("existed")
	check("existed", false, "unheard", "")

	l.track("existing") // it may have ended before
	check("existing", false, "unheard", "")
	l.handle("existing success 1")
	check("existing", false, "unheard", "")

	// Two calls start a run at a time. The first one has started it, so its end is not missed.
	first := l.track("both")
	l.handle("both success 1")
	second := l.track("both")
	l.settle("both", first, true)
	check("both", true, "success", "1")
	l.settle("both", second, false)
	check("both", false, "unheard", "")
	// It was purged, and is started again: its former end does not count.
	begin("again")
	l.handle("again success 1")
	begin("again")
	check("again", true, "unheard", "")
	// The call that has found it forgets it before a third one comes, so the end may have come in between.
	first = l.track("three")
	l.settle("three", l.track("three"), false)
	l.handle("three success 1")
	l.track("three")
	l.settle("three", first, true)
	check("three", false, "unheard", "")

	begin("lost")
	l.resync()
	check("lost", false, "unheard", "")

	begin("oldest")
	for i := range maxTracked {
		begin(enginecore.FlowID(fmt.Sprint(i)))
	}
	check("oldest", false, "unheard", "")
	if len(l.trackOrder) != maxTracked || len(l.tracked) != maxTracked {
		t.Errorf("%d and %d flows are kept", len(l.trackOrder), len(l.tracked))
	}
}

// TestCompletionOfEarlierRunIsIgnored runs a flow again while the message of its former end is still under way.
func TestCompletionOfEarlierRunIsIgnored(t *testing.T) {
	l := newCompletionListener(new(engine.Session))
	defer l.close()
	ready := make(chan struct{})
	close(ready)
	l.subscribed = ready
	receives := func(before func(), messages ...string) string {
		t.Helper()
		before()
		w, err := l.Wait(t.Context(), "f")
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
		if _, err := l.BeginRerun(t.Context(), "f"); err != nil {
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
