package runtime

import (
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
)

// maxMemo is the largest encoded memo of a run: 16 KiB.
const maxMemo = 16 << 10

// WithPriority gives all nodes of the run, and of its child runs, a priority from 0 to 9,000 instead of
// the ones of their flows, as RunRef.SetPriority does later on. Higher ones are claimed first.
//
// When Start returns a run that exists, its priority does not change.
func WithPriority(priority int) StartOption {
	return startFunc(func(c *startConfig) { c.priority = &priority })
}

// WithDeadline limits the run, from its start to its end, instead of the deadline of its flow (flow.Deadline): after
// it, unfinished nodes and the run expire. It is at least a millisecond and at most ten years; 0 sets none. With
// StartAt it counts from that time on.
//
// When Start returns a run that exists, its deadline does not change.
func WithDeadline(limit time.Duration) StartOption {
	return startFunc(func(c *startConfig) {
		limit = activityspec.Milliseconds(limit)
		c.deadline = &limit
	})
}

// WithMemo attaches a note to the run, for its readers: RunDescription.Memo. The engine does not read it, and no list
// can be searched by it; use WithTag for that. It is encoded as JSON, at most 16 KiB; a json.RawMessage is
// stored unchanged.
//
// When Start returns a run that exists, its memo does not change.
func WithMemo(memo any) StartOption {
	return startFunc(func(c *startConfig) { c.memo = &memo })
}

func checkDeadline(limit *time.Duration) error {
	if limit != nil && (*limit < 0 || *limit > maxStartDelay) {
		return invalid("deadline %s: must be 0 to 10 years", *limit)
	}
	return nil
}

// encodeMemo returns the stored form of a memo; nil without one.
func encodeMemo(memo *any) ([]byte, error) {
	if memo == nil {
		return nil, nil
	}
	data, err := activity.JSON{}.Encode(*memo)
	if err == nil {
		err = activityspec.CheckJSON(data)
	}
	if err != nil {
		return nil, invalid("memo of type %T does not encode: %w", *memo, err)
	}
	if len(data) > maxMemo {
		return nil, fmt.Errorf("%w: memo has %d bytes, at most %d are allowed", engine.ErrTooLarge, len(data), maxMemo)
	}
	return data, nil
}
