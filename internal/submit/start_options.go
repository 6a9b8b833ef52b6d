package submit

import (
	"fmt"
	"time"

	"github.com/flowfabric/flowfabric-go/activity"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/enginerpc"
)

// MaxMemo is the largest encoded memo of a run, in bytes.
const MaxMemo = 16 << 10

// StartOptions are the options of one start of a run, checked by the caller.
type StartOptions struct {
	// ID is the id of the run, if Named is set. Otherwise Plan chooses one.
	ID    string
	Named bool
	Actor string
	// Tags are the tags of the run in addition to the tags of its flow.
	Tags map[string]string
	// StartAt is the time of the start; zero is now.
	StartAt time.Time
	// Options that were not given are nil.
	Priority *int
	Deadline *time.Duration
	Memo     *any
	// Key makes the run start by a key; nil for a run without one. It does not go with an ID.
	Key *KeyedStart

	tags []enginerpc.SubmitTag
}

// KeyedStart is the start of a run by a key.
type KeyedStart struct {
	// Option is the name of the option, for errors.
	Option, Key string
	Policy      ArrivalPolicy
}

// CheckID returns the fault of the id of the options.
func (o *StartOptions) CheckID() error {
	if !o.Named {
		return nil
	}
	return CheckRunID(o.ID)
}

// ResolveTags joins the tags of the options and of the flow, for Plan. Its error has all faults of them.
func (o *StartOptions) ResolveTags(flow *CompiledFlow) (err error) {
	o.tags, err = TagsOf(flow, o.Tags)
	return err
}

// Plan makes a run of a flow ready to be submitted as the options require. ResolveTags must have been called. Its error
// wraps [engine.ErrInvalid], [engine.ErrTooLarge] or [engine.ErrNotInContract].
func (s *Submitter) Plan(compiled *CompiledFlow, o *StartOptions, input []byte) (*RunPlan, error) {
	if !o.StartAt.IsZero() {
		if _, err := s.session.Library("starting runs later"); err != nil {
			return nil, fmt.Errorf("flow %s: %w", compiled.Graph.Name, err)
		}
	}
	memo, err := encodeMemo(o.Memo)
	if err != nil {
		return nil, fmt.Errorf("flow %s: %w", compiled.Graph.Name, err)
	}
	if memo != nil {
		if _, err := s.session.Library("memos of runs"); err != nil {
			return nil, fmt.Errorf("flow %s: %w", compiled.Graph.Name, err)
		}
	}
	id, arrival, err := s.place(compiled.Graph.Name, o)
	if err != nil {
		return nil, err
	}
	plan, err := NewPlan(s.session, compiled, id, input)
	if err == nil && arrival != nil {
		err = plan.setArrival(arrival)
	}
	if err != nil {
		return nil, err
	}
	plan.Memo = memo
	if o.Priority != nil {
		plan.SetPriority(*o.Priority)
	}
	if o.Deadline != nil {
		plan.Deadline = *o.Deadline
	}
	plan.Creator, plan.StartAt = o.Actor, o.StartAt
	plan.OwnTags, plan.Tags = len(o.Tags) > 0, o.tags
	return plan, nil
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
		return nil, engine.Invalid("memo of type %T does not encode: %w", *memo, err)
	}
	if len(data) > MaxMemo {
		return nil, fmt.Errorf("%w: memo has %d bytes, at most %d are allowed", engine.ErrTooLarge, len(data), MaxMemo)
	}
	return data, nil
}

// place returns the id of a run: the given one, or one that it chooses, for a run with a key in the partition of the
// key. It also returns the key and the policy for the engine; nil for other runs.
func (s *Submitter) place(flowName string, o *StartOptions) (id string, arrival *enginerpc.SubmitArrival, err error) {
	switch {
	case o.Named:
		return o.ID, nil, nil
	case o.Key == nil:
		return s.RunIDs.Next(flowName), nil, nil
	}
	if _, err := s.session.Library(o.Key.Option); err != nil {
		return "", nil, fmt.Errorf("flow %s: %w", flowName, err)
	}
	key, partition, err := s.KeyOf(flowName, o.Key.Key)
	if err != nil {
		return "", nil, err
	}
	arrival = &enginerpc.SubmitArrival{KeyID: key, Key: o.Key.Key}
	o.Key.Policy(arrival)
	return s.RunIDs.NextIn(flowName, partition), arrival, nil
}
