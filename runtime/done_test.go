package runtime

import (
	"fmt"
	"slices"
	"testing"

	"github.com/flowfabric/flowfabric-go/enginecore"
)

// TestExpectedEndings starts flows in a partition that is listened to, and asks for their end later.
func TestExpectedEndings(t *testing.T) {
	p, other := enginecore.Partition{Index: 1}, enginecore.Partition{Index: 2}
	d := newDoneListener(nil)
	defer d.close()
	ready := make(chan struct{})
	close(ready)
	d.partitions[p] = ready
	d.partitions[other] = make(chan struct{})
	await := func(id enginecore.FlowID) (doneWait, ending) {
		t.Helper()
		w, err := d.wait(t.Context(), id, p)
		if err != nil {
			t.Fatal(err)
		}
		defer d.release(w)
		select {
		case end := <-w.heard:
			return w, end
		default:
			return w, ending{outcome: "unheard"}
		}
	}
	check := func(id enginecore.FlowID, expected bool, outcome, result string) {
		t.Helper()
		w, end := await(id)
		if w.expected != expected || end.outcome != outcome || string(end.result) != result || end.known != (result != "") {
			t.Errorf("flow %s: expected %t, %+v", id, w.expected, end)
		}
	}

	d.expect("early", p)
	d.tell(parseDone("early success {\"a\": 1}"))
	check("early", true, "success", `{"a": 1}`)
	check("early", false, "unheard", "") // it was asked for

	d.expect("failed", p)
	d.tell(parseDone("failed failed"))
	check("failed", true, "failed", "")

	d.expect("rerun", p)
	d.tell(parseDone("rerun success 1"))
	d.tell(parseDone("rerun reopened"))
	check("rerun", true, "unheard", "")

	d.expect("running", p)
	check("running", true, "unheard", "")

	d.expect("existed", p)
	d.forget("existed")
	check("existed", false, "unheard", "")

	d.expect("elsewhere", other) // nobody hears that partition yet
	if _, expected := d.expected["elsewhere"]; expected {
		t.Error("a flow of a partition that is not heard is expected")
	}

	d.expect("lost", p)
	d.lostTrack()
	check("lost", false, "unheard", "")

	d.expect("oldest", p)
	for i := range maxExpected {
		d.expect(enginecore.FlowID(fmt.Sprint(i)), p)
	}
	check("oldest", false, "unheard", "")
	if len(d.recent) != maxExpected || len(d.expected) != maxExpected {
		t.Errorf("%d and %d flows are kept", len(d.recent), len(d.expected))
	}
}

// TestFormerEndings runs a flow again while the message of its former end is still under way.
func TestFormerEndings(t *testing.T) {
	p := enginecore.Partition{Index: 1}
	d := newDoneListener(nil)
	defer d.close()
	ready := make(chan struct{})
	close(ready)
	d.partitions[p] = ready
	hears := func(before func(), messages ...string) string {
		t.Helper()
		before()
		w, err := d.wait(t.Context(), "f", p)
		if err != nil {
			t.Fatal(err)
		}
		defer d.release(w)
		for _, message := range messages {
			d.tell(parseDone(message))
		}
		select {
		case end := <-w.heard:
			return string(end.result)
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
		if err := d.reopen(t.Context(), "f", p); err != nil {
			t.Fatal(err)
		}
	}
	check("nothing", hears(reopen, "f success 1", "f reopened"))
	check("2", hears(func() {}, "f success 2"))
	check("2", hears(reopen, "f success 1", "f reopened", "f success 2"))
	check("1", hears(func() { reopen(); d.kept("f") }, "f success 1"))
	check("", hears(reopen, "f success 1", "f reopened", "f failed"))
	check("1", hears(func() { reopen(); d.lostTrack() }, "f success 1"))
}

// TestManyEndings reads messages that tell of several flows.
func TestManyEndings(t *testing.T) {
	read := func(message string) (list []string) {
		for one := range eachDone(message) {
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
