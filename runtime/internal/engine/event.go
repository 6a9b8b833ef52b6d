package engine

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/runtime/runevent"
)

// ReadEvent decodes an event of a run. Fields that the event does not have, or that are malformed, are zero.
func ReadEvent(e enginerpc.FlowEvent) runevent.Event {
	event := runevent.Event{ID: e.ID, At: EntryTime(e.ID), Kind: runevent.Kind(e.Event), Node: e.Node, Detail: e.Detail}
	if index, err := strconv.Atoi(e.Attempt); err == nil {
		event.Attempt = index + 1
	}
	if event.Kind == runevent.Progress {
		progress, _ := enginerpc.ParseProgressText(e.Detail)
		event.Percent, _ = strconv.ParseFloat(progress.Percent, 64)
		event.Message, event.Detail = progress.Words, ""
	}
	return event
}

// EntryOf returns the id of the stream entry that holds an event. The id of an event that is not the last one of its
// entry has its position after a dot.
func EntryOf(id string) string {
	entry, _, _ := strings.Cut(id, ".")
	return entry
}

// EntryBefore reports whether the stream entry of event a precedes that of event b.
func EntryBefore(a, b string) bool {
	aTime, aNumber, _ := strings.Cut(EntryOf(a), "-")
	bTime, bNumber, _ := strings.Cut(EntryOf(b), "-")
	return cmp.Or(compareDigits(aTime, bTime), compareDigits(aNumber, bNumber)) < 0
}

// compareDigits compares numbers without leading zeros.
func compareDigits(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) }

// EntryTime returns when a stream entry was written, in UTC and to the millisecond. A malformed id yields the Unix
// epoch.
func EntryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	at, _ := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(at).UTC()
}
