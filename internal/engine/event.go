package engine

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
	"github.com/flowfabric/flowfabric-go/internal/eventkind"
	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// ReadEvent decodes an event of a run. Fields that the event does not have, or that are malformed, are zero.
func ReadEvent(e enginerpc.FlowEvent) fabrictype.Event {
	event := fabrictype.Event{ID: e.ID, At: e.At, Kind: fabrictype.EventKind(e.Event), Node: e.Node, Detail: e.Detail}
	attempt, category, _ := strings.Cut(e.Attempt, ":")
	if index, err := strconv.Atoi(attempt); err == nil {
		event.Attempt = index + 1
	}
	event.Category, _ = url.PathUnescape(category)
	if event.Kind == fabrictype.EventProgress {
		progress, _ := enginerpc.ParseProgressText(e.Detail)
		event.Percent, _ = strconv.ParseFloat(progress.Percent, 64)
		event.Message, event.Detail = progress.Words, ""
	}
	if event.Kind == eventkind.Sleeping || event.Kind == eventkind.TimerMoved {
		if ms, err := strconv.ParseInt(e.Detail, 10, 64); err == nil {
			event.Detail = recordtext.Time(ms).Format(time.RFC3339Nano)
		}
	}
	return event
}

// EntryTime returns when a stream entry was written, in UTC and to the millisecond. A malformed id yields the Unix
// epoch.
func EntryTime(id string) time.Time {
	ms, _, _ := strings.Cut(id, "-")
	at, _ := strconv.ParseInt(ms, 10, 64)
	return recordtext.Time(at)
}

// FrameNumber identifies a frame of an attempt, so that a reader can drop a frame that a worker has sent twice. Frames
// are counted per lease. The zero value means that a frame has no number.
type FrameNumber struct {
	Epoch enginecore.LeaseEpoch // 0: it has none
	Count int64
}

// frameSource begins the source of a frame that a worker has numbered.
const frameSource = "worker "

// Source returns the source of a frame with the number, which [ParseFrameSource] reads.
func (n FrameNumber) Source() string { return fmt.Sprintf("%s%d.%d", frameSource, n.Epoch, n.Count) }

// ParseFrameSource parses the output of [FrameNumber.Source]. Any other text yields the zero value.
func ParseFrameSource(text string) FrameNumber {
	text, numbered := strings.CutPrefix(text, frameSource)
	epoch, count, _ := strings.Cut(text, ".")
	e, err1 := strconv.ParseInt(epoch, 10, 64)
	n, err2 := strconv.ParseInt(count, 10, 64)
	if !numbered || err1 != nil || err2 != nil {
		return FrameNumber{}
	}
	return FrameNumber{enginecore.LeaseEpoch(e), n}
}
