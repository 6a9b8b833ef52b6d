package flowgraph

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// ErrInvalid matches every fault.
var ErrInvalid = errors.New("invalid flow")

// The kinds of faults. Build, Validate and ParseGraph return errors that match them by errors.Is.
var (
	ErrName            = errors.New("bad name")
	ErrEmptyFlow       = errors.New("flow has no nodes")
	ErrDuplicateName   = errors.New("name is used twice")
	ErrNilActivity     = errors.New("activity is nil")
	ErrInvalidActivity = errors.New("activity is not usable") // also matches activity.ErrInvalid
	ErrNilBinding      = errors.New("input binding is nil")
	ErrForeignRef      = errors.New("reference does not belong to this flow")
	ErrUnknownNode     = errors.New("no such node")
	ErrTypeMismatch    = errors.New("type mismatch")
	ErrUnknownField    = errors.New("no such field")
	ErrMissingField    = errors.New("field is not bound")
	ErrDuplicateField  = errors.New("field is bound twice")
	ErrCodec           = errors.New("codecs do not fit")
	ErrConst           = errors.New("bad constant")
	ErrBinding         = errors.New("bad input binding")
	ErrEdge            = errors.New("bad edge")
	ErrCycle           = errors.New("cycle")
	ErrNoReturn        = errors.New("flow returns nothing, but has a result type")
	ErrReturn          = errors.New("bad return")
	ErrOption          = errors.New("bad option")
	ErrTag             = errors.New("bad tag")
	ErrType            = errors.New("bad type")
	ErrLimit           = errors.New("limit exceeded")
	ErrSyntax          = errors.New("graph is not readable")
	ErrVersion         = errors.New("graph has an unknown version")
)

// Fault is one fault of a flow.
type Fault struct {
	// Flow is the flow's name.
	Flow string
	// Node is the node's name, empty where the fault is the flow's.
	Node string
	// Path is the position in the node or flow, such as "input.files[2].shard" or "tags", possibly empty.
	Path string
	// Kind is the class of the fault, such as "cycle" or "type mismatch". It is the same error for all faults of the
	// class.
	Kind error
	// Detail describes the found and the expected value, possibly empty.
	Detail string
	// Cause is the error that caused the fault, possibly nil.
	Cause error
	// Place is where the node, or the flow, was declared: "file.go:12", possibly empty.
	Place string
}

// Error names the position, the kind and the detail.
func (f *Fault) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "flow %q: ", f.Flow)
	if f.Node != "" {
		fmt.Fprintf(&b, "node %q: ", f.Node)
	}
	if f.Path != "" {
		b.WriteString(f.Path + ": ")
	}
	if f.Kind != nil {
		b.WriteString(f.Kind.Error())
	}
	if f.Detail != "" {
		b.WriteString(": " + f.Detail)
	}
	if f.Cause != nil {
		b.WriteString(": " + f.Cause.Error())
	}
	if f.Place != "" {
		b.WriteString(" (" + f.Place + ")")
	}
	return b.String()
}

// Unwrap returns ErrInvalid and Kind, and Cause if there is one.
func (f *Fault) Unwrap() []error {
	if f.Cause == nil {
		return []error{ErrInvalid, f.Kind}
	}
	return []error{ErrInvalid, f.Kind, f.Cause}
}

// Faults returns all faults in an error of Build, Validate or ParseGraph, in the order in which they were found.
func Faults(err error) []*Fault {
	var found []*Fault
	switch e := err.(type) {
	case nil:
	case *Fault:
		found = append(found, e)
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			found = append(found, Faults(inner)...)
		}
	default:
		found = Faults(errors.Unwrap(err))
	}
	return found
}

// FaultList collects the faults of one flow.
type FaultList struct {
	Flow string
	List []error
}

// Add appends a fault whose detail is formatted.
func (f *FaultList) Add(node, path string, kind error, format string, args ...any) {
	f.List = append(f.List, &Fault{
		Flow: f.Flow, Node: node, Path: path, Kind: kind, Detail: fmt.Sprintf(format, args...),
	})
}

// Cause appends a fault with the error that caused it.
func (f *FaultList) Cause(node, path string, kind, cause error) {
	f.List = append(f.List, &Fault{Flow: f.Flow, Node: node, Path: path, Kind: kind, Cause: cause})
}

// Err returns the faults, joined, or nil.
func (f *FaultList) Err() error { return errors.Join(f.List...) }

// Position is a position in an input. It is formatted only for a fault.
type Position struct {
	up    *Position
	Name  string // empty for an item of a list
	index int
	Depth int
}

// Field returns the position of a field.
func (p *Position) Field(name string) *Position {
	return &Position{up: p, Name: name, Depth: p.Depth + 1}
}

// Item returns the position of an item of a list.
func (p *Position) Item(index int) *Position {
	return &Position{up: p, index: index, Depth: p.Depth + 1}
}

// String returns the position as a path, such as "input.files[2].shard".
func (p *Position) String() string {
	switch {
	case p.up == nil:
		return p.Name
	case p.Name == "":
		return p.up.String() + "[" + strconv.Itoa(p.index) + "]"
	default:
		return p.up.String() + "." + p.Name
	}
}
