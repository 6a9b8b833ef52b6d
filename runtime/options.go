package runtime

import (
	"errors"
	"time"

	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/runcontrol"
	"github.com/flowfabric/flowfabric-go/internal/submit"
)

// apply applies options in their order. Its error matches ErrInvalid and names those that are nil.
func apply[O ~func(C), C any](to C, opts []O) error {
	var faults []error
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, nilOption(i))
			continue
		}
		opt(to)
	}
	return errors.Join(faults...)
}

// nilOption is the fault of an option that is nil, by its index.
func nilOption(i int) error { return invalid("option %d is nil", i+1) }

// ActionOption adjusts an operation such as Cancel, Rerun or PauseLane. It is also a StartOption.
type ActionOption func(*action)

type action struct {
	actor string
	// request identifies the request if isNamed.
	request string
	isNamed bool
}

// start makes an ActionOption a StartOption.
func (o ActionOption) start(c *startConfig) bool {
	if o == nil {
		return false
	}
	a := action{actor: c.Actor}
	o(&a)
	c.Actor = a.actor
	return true
}

// WithActor names the person or program that starts the run or operates on it, or pauses a lane or an activity; the
// engine records the name. It has at most 256 bytes without control characters, otherwise the call returns ErrInvalid.
// Defaults to the actor of Client.As, then to "client" for operations, and to an empty name for Start.
func WithActor(actor string) ActionOption { return func(a *action) { a.actor = actor } }

// WithRequestID names the request of a call that has an effect each time, Rerun, TriggerSchedule or BackfillSchedule: a
// call that repeats the request has no effect, and returns the result of the first one. Use it to repeat a call whose
// outcome is not known. A run knows the request of its last rerun, a schedule the requests of its last 32 triggers and
// backfills. Other calls can be repeated anyway and ignore it; WithID does the same for Start. The id has 1 to 128
// bytes without control characters, otherwise the call returns ErrInvalid.
func WithRequestID(id string) ActionOption {
	return func(a *action) { a.request, a.isNamed = id, true }
}

// maxRequestID is the most bytes of the id of a request.
const maxRequestID = 128

func (c *Client) actionOf(opts []ActionOption) (action, error) {
	a := action{actor: c.actorName()}
	err := errors.Join(apply(&a, opts), engine.CheckText("actor", a.actor, engine.MaxActor),
		engine.CheckText("request id", a.request, maxRequestID))
	if a.isNamed && a.request == "" {
		err = errors.Join(err, invalid("request id: must not be empty"))
	}
	return a, err
}

// StartOption adjusts a call of Start: WithID, WithTag, WithMemo, WithPriority, WithDeadline, WithActor, WithKey,
// WithThrottle, WithDebounce, WithSignal or StartAt.
type StartOption interface {
	// start reports whether the option is one, not nil.
	start(*startConfig) bool
}

type startConfig struct {
	submit.StartOptions
	// keyFaults are the faults of all options with keys.
	keyFaults []error
	// Options that were not given are nil.
	signal *startSignal
}

// startSignal is the signal of a start.
type startSignal struct {
	wait   WaitName
	signal Signal
}

// startFunc is a StartOption that adjusts nothing but starts.
type startFunc func(*startConfig)

func (f startFunc) start(c *startConfig) bool {
	if f != nil {
		f(c)
	}
	return f != nil
}

func (c *Client) startConfigOf(opts []StartOption) (startConfig, error) {
	config := startConfig{StartOptions: submit.StartOptions{Actor: c.actor}}
	var faults []error
	if len(opts) > 0 {
		config, faults = config.with(opts)
	}
	if config.Priority != nil {
		faults = append(faults, runcontrol.CheckPriority(*config.Priority))
	}
	return config, errors.Join(errors.Join(faults...), engine.CheckText("actor", config.Actor, engine.MaxActor),
		checkStartAt(config.StartAt), checkDeadline(config.Deadline))
}

// with returns the configuration with options, and the faults of these.
func (c startConfig) with(opts []StartOption) (config startConfig, faults []error) {
	for i, opt := range opts {
		if opt == nil || !opt.start(&c) {
			faults = append(faults, nilOption(i))
		}
	}
	return c, faults
}

// WithID sets the run id, which is unique within a namespace and flow. If a run with that id, a graph of the same
// structure and the same input exists, Start returns it, whether it is open or over. The structure of a graph is its
// nodes with their activities, waits, edges, joins and inputs. The rest are options, such as retry policies, timeouts,
// priorities, lanes, limits and tags: the run that exists keeps those with which it was started. An id is valid UTF-8
// of 1 to 256 bytes without control characters. Defaults to a random UUID.
//
// The id of a child run consists of the flow, the id and the node of its parent, separated by "/", such as
// "monthly/2026-11/each". A run of the sub-flow that is started with the same id would be in its place, so do not use
// ids of this form for flows that are also sub-flows.
func WithID(id string) StartOption {
	return startFunc(func(c *startConfig) { c.ID, c.Named = id, true })
}

// WithTag attaches a tag to the run, by which Client.Runs finds it. It adds to the tags of the flow, or replaces the
// one with the same key. Keys, values and their number follow the rules of flow.Tag. When Start returns a run that
// exists, the tags of that run do not change.
func WithTag(key, value string) StartOption {
	return startFunc(func(c *startConfig) {
		if c.Tags == nil {
			c.Tags = make(map[string]string)
		}
		c.Tags[key] = value
	})
}

// WithPriority gives all nodes of the run, and of its child runs, a priority from 0 to 9,000 instead of
// the ones of their flows, as RunRef.SetPriority does later on. Higher ones are claimed first.
//
// When Start returns a run that exists, its priority does not change.
func WithPriority(priority int) StartOption {
	return startFunc(func(c *startConfig) { c.Priority = &priority })
}

// WithDeadline limits the run, from its start to its end, instead of the deadline of its flow (flow.Deadline): after
// it, unfinished nodes and the run expire. It is at least a millisecond and at most ten years; 0 sets none. With
// StartAt it counts from that time on.
//
// When Start returns a run that exists, its deadline does not change.
func WithDeadline(limit time.Duration) StartOption {
	return startFunc(func(c *startConfig) {
		limit = activityspec.Milliseconds(limit)
		c.Deadline = &limit
	})
}

// WithMemo attaches a note to the run, for its readers: RunDescription.Memo. The engine does not read it, and no list
// can be searched by it; use WithTag for that. It is encoded as JSON, at most 16 KiB; a json.RawMessage is
// stored unchanged.
//
// When Start returns a run that exists, its memo does not change.
func WithMemo(memo any) StartOption {
	return startFunc(func(c *startConfig) { c.Memo = &memo })
}

func checkDeadline(limit *time.Duration) error {
	if limit != nil && (*limit < 0 || *limit > maxStartDelay) {
		return invalid("deadline %s: must be 0 to 10 years", *limit)
	}
	return nil
}

// maxStartDelay is how far ahead a start may be.
const maxStartDelay = 10 * 366 * 24 * time.Hour

// StartAt makes the run start at a time, to the millisecond by the engine's clock. The run exists at once: it is listed
// and described, with RunDescription.StartsAt, and can be cancelled, paused, given another priority, or moved by
// RunRef.MoveStart. Nothing of it runs before; deadlines, and delays of nodes, count from then on. A time that is over
// is now. It may be ten years ahead.
//
// When Start returns a run that exists, its time does not change.
func StartAt(t time.Time) StartOption {
	return startFunc(func(c *startConfig) { c.StartAt = t })
}

// checkStartAt returns the fault of the time of a start.
func checkStartAt(t time.Time) error {
	if !t.IsZero() && time.Until(t) > maxStartDelay {
		return invalid("start at %s: must be within 10 years", t.UTC().Format(time.RFC3339))
	}
	return nil
}
