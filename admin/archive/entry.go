package archive

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/enginecore"
	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/runtime"
)

var (
	// ErrNotFound says that the archive has no run with the name.
	ErrNotFound = errors.New("not in the archive")
	// ErrLocked says that another Write is at work on the directory, in this process or another.
	ErrLocked = errors.New("archive is in use")
	// ErrDamaged says that a file of the archive is missing, or is not what was written.
	ErrDamaged = errors.New("archive is damaged")
)

// Entry is one end of a run in the archive. A run that was run again has one for each of its archived ends.
type Entry struct {
	Flow   string              `json:"flow"`
	Run    string              `json:"run"`
	FlowID enginecore.FlowID   `json:"flow_id"`
	State  fabrictype.RunState `json:"state"`
	// CreatedAt and ClosedAt are the times of the start and of the end.
	CreatedAt time.Time `json:"created_at"`
	ClosedAt  time.Time `json:"closed_at"`
	// Tags are those of the run, Nodes how many nodes it had, and FailedNode the node that failed first.
	Tags       map[string]string `json:"tags,omitempty"`
	Nodes      int               `json:"nodes"`
	FailedNode string            `json:"failed_node,omitempty"`

	segment string
	// Offset and Bytes are the place of the run in its segment.
	Offset int64 `json:"offset"`
	Bytes  int64 `json:"bytes"`
}

// sameEnd reports whether two entries are of one end of a run.
func (e *Entry) sameEnd(other Entry) bool {
	return e.Flow == other.Flow && e.Run == other.Run && e.FlowID == other.FlowID && e.ClosedAt.Equal(other.ClosedAt)
}

// Run is what the archive has of a run.
type Run struct {
	Entry
	// Definition is the graph of the run, as the engine stores it; nil for a run without one.
	Definition json.RawMessage `json:"definition,omitempty"`
	// Pages are the description of the run with its values, in pages of up to 500 nodes, as runcheck.Export writes
	// them.
	Pages []*runtime.RunDescription `json:"pages"`
	// Events are those of the run and its nodes, in their order. EventsLost reports that the engine had dropped some.
	Events     []fabrictype.Event `json:"events"`
	EventsLost bool               `json:"events_lost,omitempty"`
	// Logs has the lines that the attempts of a node logged, by the name of the node.
	Logs map[string][]fabrictype.LogLine `json:"logs,omitempty"`
}

// line is one line of a segment. A run begins with one that has Run, and has at most one of the other fields in each
// of those that follow.
type line struct {
	Format      int                     `json:"format,omitempty"`
	Run         *Entry                  `json:"run,omitempty"`
	Definition  json.RawMessage         `json:"definition,omitempty"`
	Description *runtime.RunDescription `json:"description,omitempty"`
	Events      []fabrictype.Event      `json:"events,omitempty"`
	EventsLost  bool                    `json:"events_lost,omitempty"`
	Logs        *nodeLogs               `json:"logs,omitempty"`
}

// nodeLogs are lines that one node logged.
type nodeLogs struct {
	Node  string               `json:"node"`
	Lines []fabrictype.LogLine `json:"lines"`
}

// add adds a line to the run that it belongs to.
func (r *Run) add(l line) {
	switch {
	case l.Run != nil:
	case l.Definition != nil:
		r.Definition = l.Definition
	case l.Description != nil:
		r.Pages = append(r.Pages, l.Description)
	case l.Logs != nil:
		if r.Logs == nil {
			r.Logs = make(map[string][]fabrictype.LogLine)
		}
		r.Logs[l.Logs.Node] = append(r.Logs[l.Logs.Node], l.Logs.Lines...)
	default:
		r.Events = append(r.Events, l.Events...)
		r.EventsLost = r.EventsLost || l.EventsLost
	}
}

// Description returns the description of the run with the nodes of all pages.
func (r *Run) Description() *runtime.RunDescription {
	if len(r.Pages) == 0 {
		return nil
	}
	whole := *r.Pages[0]
	whole.Next = ""
	whole.Nodes = nil
	for _, page := range r.Pages {
		whole.Nodes = append(whole.Nodes, page.Nodes...)
	}
	return &whole
}
