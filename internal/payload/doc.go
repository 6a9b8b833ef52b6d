// Package payload turns the values of users into the bytes that an engine keeps, and back: it compresses them if that
// saves a tenth, and seals them (AES-256-GCM, a key of its own for each run) if the program has keys.
//
// A value that a pipeline has changed is an envelope, which begins with two bytes with which no JSON, MessagePack or
// protobuf begins. Other values are kept as they are. [Slots] lists the places in which an engine keeps values; the
// headers of the library's functions name the slot of each argument and of each field of a reply.
package payload

import (
	"fmt"
	"slices"
	"strings"
)

// Slot is a kind of place in which an engine keeps a value. It is covered by a seal, so that a value cannot be
// moved to a place of another kind. Numbers are stored and never change.
type Slot uint8

// The kinds of places. [Slots] describes them.
const (
	Input Slot = iota + 1
	Result
	Step
	Signal
	State
	Live
	Details
	ScheduleInput
)

// SlotInfo describes a kind of place.
type SlotInfo struct {
	Slot  Slot
	Name  string // in the headers of the library's functions
	Of    Kind
	Holds string
}

// Kind is a kind of owners of values.
type Kind uint8

// Owners of values.
const (
	Node     Kind = iota // of a run
	Run                  // whose nodes share the value
	Schedule             // which has no run
)

// slots is the table of all kinds of places, in the order of their numbers.
var slots = [...]SlotInfo{
	{Input, "input", Run, "the input of a run"},
	{Result, "result", Node, "the result of a node"},
	{Step, "step", Node, "the result of a step of a function"},
	{Signal, "signal", Run, "the payload of a signal, and of the wait that it ends"},
	{State, "state", Node, "the state that a function carries to its next turn"},
	{Live, "live", Run, "a value that a run publishes while it runs"},
	{Details, "details", Node, "the details of a failure: the fields of an error"},
	{ScheduleInput, "schedule_input", Schedule, "the input of the runs of a schedule"},
}

// Slots returns the table of all kinds of places.
func Slots() []SlotInfo { return slices.Clone(slots[:]) }

// String returns the name of a slot.
func (s Slot) String() string {
	if s > 0 && int(s) <= len(slots) {
		return slots[s-1].Name
	}
	return fmt.Sprintf("slot %d", uint8(s))
}

// Place is where a value is kept: its slot, its owner (the id of a run, a schedule), and the number of the node.
type Place struct {
	Slot  Slot
	Owner string
	Node  int // 0 for a value of the run itself
}

// uuidPrefix is how much of the id of a run its executions have in common with it. Their last digits are the number of
// the node.
const uuidPrefix = 32

// At returns the place of a value in a slot of the table, given the id of its owner: of a run, of the execution of a
// node, or of a schedule.
func At(slot Slot, owner string) Place {
	switch slots[slot-1].Of {
	case Schedule:
		return Place{Slot: slot, Owner: owner}
	case Run:
		return OfRun(slot, owner)
	default:
		return OfNode(slot, owner)
	}
}

// OfRun returns the place of a value of a run, given the id of the run or of one of its executions.
func OfRun(slot Slot, id string) Place {
	if i := strings.IndexByte(id, '}'); i >= 0 && len(id) > i+1 {
		id = id[i+2:] // the partition of a run changes with their number
	}
	return Place{Slot: slot, Owner: id[:min(len(id), uuidPrefix)]}
}

// OfNode returns the place of a value of a node, given the id of its execution. The number of the node is the end of
// the id.
func OfNode(slot Slot, execution string) Place {
	p := OfRun(slot, execution)
	for _, digit := range execution[max(0, len(execution)-4):] {
		p.Node = p.Node<<4 | strings.IndexRune("0123456789abcdef", digit)
	}
	return p
}

func (p Place) String() string {
	if p.Node == 0 {
		return fmt.Sprintf("%s of %s", p.Slot, p.Owner)
	}
	return fmt.Sprintf("%s of node %d of %s", p.Slot, p.Node, p.Owner)
}
