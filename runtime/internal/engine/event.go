package engine

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/runevent"
)

// ReadEvent decodes an event of a run.
func ReadEvent(e enginerpc.FlowEvent) runevent.Event {
	event := runevent.Event{ID: e.ID, At: EntryTime(e.ID), Kind: runevent.Kind(e.Event), Node: e.Node, Detail: e.Detail}
	if index, err := strconv.Atoi(e.Attempt); err == nil {
		event.Attempt = index + 1
	}
	if event.Kind == runevent.Progress {
		percent, message, _ := strings.Cut(e.Detail, " ")
		event.Percent, _ = strconv.ParseFloat(percent, 64)
		event.Message, event.Detail = message, ""
	}
	return event
}

// EntryOf is the id of the stream's entry that an event is in. The id of an event that is not the last of its entry has
// its place there behind a dot.
func EntryOf(id string) string {
	entry, _, _ := strings.Cut(id, ".")
	return entry
}

// EntryBefore tells whether the entry of an event comes before that of another.
func EntryBefore(a, b string) bool {
	aTime, aNumber, _ := strings.Cut(EntryOf(a), "-")
	bTime, bNumber, _ := strings.Cut(EntryOf(b), "-")
	return cmp.Or(compareDigits(aTime, bTime), compareDigits(aNumber, bNumber)) < 0
}

// compareDigits compares numbers without leading zeros.
func compareDigits(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// EntryTime is when an entry of a stream was written.
func EntryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	at, _ := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(at).UTC()
}
