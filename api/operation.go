package api

import (
	"reflect"
)

// Prefix begins the path of every operation.
const Prefix = "/api/v1"

// Effect is the effect of an operation on stored data.
type Effect string

// Effects of operations.
const (
	// Reads changes nothing.
	Reads Effect = "reads"
	// Changes changes something that can be changed again.
	Changes Effect = "changes"
	// Destroys removes something for good, or ends work that cannot continue.
	Destroys Effect = "destroys"
)

// Right is the permission that a principal needs to call an operation.
type Right string

// Rights. Roles are sets of them.
const (
	// View reads everything but payloads.
	View Right = "view"
	// ReadPayloads reads inputs, results, logs, frames and signals, in addition to View.
	ReadPayloads Right = "payloads:read"
	// Approve answers waits.
	Approve Right = "approve"
	// Operate starts and changes runs, schedules, lanes and limits.
	Operate Right = "operate"
	// Work claims nodes of runs and carries them out; it reads and writes their payloads.
	Work Right = "work"
	// Administer removes data, and manages tokens and secrets.
	Administer Right = "administer"
)

// Rights returns all rights.
func Rights() []Right { return []Right{View, ReadPayloads, Approve, Operate, Work, Administer} }

// Operation is one entry of the table.
type Operation struct {
	// Name identifies the operation: verb and noun with a hyphen, such as "cancel-run".
	Name string
	// Group is the subject that the operation belongs to, such as "runs".
	Group string
	// Method is the HTTP method. Path begins after Prefix; names of parameters are in braces.
	Method, Path string
	// Summary is one line of English.
	Summary string
	Right   Right
	Effect  Effect
	// Bound reports whether a principal who is bound to some flows may call the operation. Such an operation is about a
	// flow that its path names, or shows and changes nothing of flows that the principal may not see.
	Bound bool
	// Streams reports whether the operation can answer with server-sent events.
	Streams bool
	// Created reports whether a reply that created something has status 201.
	Created bool
	// Credential reports whether the reply has a credential: it is not stored, so the operation takes no
	// Idempotency-Key.
	Credential bool
	// Query names the query whose parameters the operation takes in addition to the parameters of its input: QueryRuns,
	// QueryWaits or empty.
	Query string
	// Input is the type of the input, Output the type of the reply, or of the events of a stream.
	Input, Output reflect.Type
}

// Queries that operations take as parameters.
const (
	// QueryRuns is a query of runs: runtime.RunQuery writes its parameters and runtime.ParseRunQuery reads them.
	QueryRuns = "runs"
	// QueryWaits is a query of open waits: WaitQuery.Values writes its parameters and runtime.ParseWaitQuery
	// reads them.
	QueryWaits = "waits"
)

// Call is an operation with a single reply.
type Call[In, Out any] struct{ Operation }

// Stream is an operation that follows something: its events, or pages of them.
type Stream[In, Event any] struct{ Operation }

// Entry is a Call or a Stream, whatever its types.
type Entry interface{ Entry() Operation }

// Entry implements Entry.
func (o Operation) Entry() Operation { return o }

func call[In, Out any](o Operation) Call[In, Out] {
	o.Input, o.Output = reflect.TypeFor[In](), reflect.TypeFor[Out]()
	return Call[In, Out]{o}
}

func stream[In, Event any](o Operation) Stream[In, Event] {
	o.Input, o.Output, o.Streams = reflect.TypeFor[In](), reflect.TypeFor[Event](), true
	return Stream[In, Event]{o}
}
