// Package errordetail turns the named errors in the chain of an error into data that is stored with a failure, and
// finds them there again, in another process, by name.
package errordetail

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/flowfabric/flowfabric-go/internal/recordtext"
)

// Named is an error with a name that is the same in every program: activity.DetailedError.
type Named interface {
	error
	ErrorName() string
}

// Detail is a named error of a failure.
type Detail struct {
	Name string `json:"name"`
	// Value is the error in JSON; nil for one that has nothing but its name, and for one that has no JSON form.
	Value json.RawMessage `json:"value,omitempty"`
	// OmittedBytes is the size of a value that was too large to be stored.
	OmittedBytes int `json:"omitted_bytes,omitempty"`
}

// Bounds of the details of one failure.
const (
	maxDetails = 16
	maxBytes   = 16 << 10 // of all values
	maxName    = 128
)

// Sentinel is a named error without a value.
type Sentinel struct {
	name, text string
	general    error
}

// NewSentinel returns a sentinel.
func NewSentinel(name, text string) *Sentinel { return &Sentinel{name: NameOf(name), text: text} }

// NewSentinelOf returns a sentinel that matches a more general one as well, for errors.Is.
func NewSentinelOf(general error, name, text string) error {
	return &Sentinel{NameOf(name), text, general}
}

// Error returns the text.
func (s *Sentinel) Error() string { return s.text }

// Unwrap returns the general error; nil if there is none.
func (s *Sentinel) Unwrap() error { return s.general }

// ErrorName returns the name.
func (s *Sentinel) ErrorName() string { return s.name }

// NameOf returns a name as it is stored: one line of at most 128 bytes.
func NameOf(name string) string { return recordtext.Line(name, maxName) }

// Of returns the named errors in the chain of err, the outermost first: errors with a method ErrorName, errors of
// package context, errors that nameOf has a name for, and the details of failures of other runs. The list is bounded;
// bytes beyond the bound of a value are counted in OmittedBytes.
func Of(err error, nameOf func(error) string) []Detail {
	w := walker{nameOf: nameOf}
	w.walk(err)
	return w.list
}

type walker struct {
	nameOf func(error) string
	list   []Detail
	bytes  int
}

func (w *walker) walk(err error) {
	if err == nil || len(w.list) >= maxDetails {
		return
	}
	if source, ok := err.(interface{ As(any) bool }); ok {
		var stored []Detail
		if source.As(&stored) { // the failure of another run
			for _, d := range stored {
				w.add(d.Name, d.Value, d.OmittedBytes)
			}
		}
	}
	if named, ok := err.(Named); ok {
		w.add(NameOf(named.ErrorName()), valueOf(named), 0)
	} else if name := nameOfUnnamed(err, w.nameOf); name != "" {
		w.add(name, nil, 0)
	}
	switch wrapping := err.(type) {
	case interface{ Unwrap() error }:
		w.walk(wrapping.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range wrapping.Unwrap() {
			w.walk(inner)
		}
	}
}

// nameOfUnnamed returns the name of an error that has no method ErrorName; empty for one without a name.
func nameOfUnnamed(err error, nameOf func(error) string) string {
	switch {
	case err == context.Canceled:
		return "flowfabric.context_canceled"
	case err == context.DeadlineExceeded:
		return "flowfabric.context_deadline_exceeded"
	case nameOf == nil:
		return ""
	}
	return nameOf(err)
}

func (w *walker) add(name string, value json.RawMessage, omitted int) {
	if name == "" || len(w.list) >= maxDetails {
		return
	}
	if w.bytes+len(value) > maxBytes {
		value, omitted = nil, len(value)
	}
	w.bytes += len(value)
	w.list = append(w.list, Detail{name, value, omitted})
}

func valueOf(err Named) json.RawMessage {
	if _, bare := err.(*Sentinel); bare {
		return nil
	}
	value, fault := json.Marshal(err)
	if fault != nil || string(value) == "{}" || string(value) == "null" {
		return nil
	}
	return value
}

// Encode returns the stored form of details; nil for none.
func Encode(list []Detail) []byte {
	if len(list) == 0 {
		return nil
	}
	data, _ := json.Marshal(list) // texts, numbers and values that are JSON have a JSON form
	return data
}

// Decode parses the stored form; it returns nil for no data, and for data that another version wrote in another form.
func Decode(data []byte) []Detail {
	if len(data) == 0 {
		return nil
	}
	var list []Detail
	if json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

// Is reports whether the details have an error with the target's name, which comes from its method ErrorName or from
// nameOf; nameOf may be nil.
func Is(list []Detail, target error, nameOf func(error) string) bool {
	if len(list) == 0 {
		return false
	}
	name := ""
	if named, ok := target.(Named); ok {
		name = NameOf(named.ErrorName())
	} else if target != nil {
		name = nameOfUnnamed(target, nameOf)
	}
	return name != "" && find(list, name) != nil
}

// As sets the variable that target points to, of a type with a method ErrorName, to the first error of that name, as
// errors.As does. It returns false if there is none, if its value was not stored, or if the value does not decode.
func As(list []Detail, target any) bool {
	if out, ok := target.(*[]Detail); ok {
		*out = list
		return true
	}
	at := reflect.ValueOf(target)
	if len(list) == 0 || at.Kind() != reflect.Pointer || at.IsNil() {
		return false
	}
	kind := at.Type().Elem()
	holder := reflect.New(kind)
	if kind.Kind() == reflect.Pointer {
		holder.Elem().Set(reflect.New(kind.Elem()))
	}
	named, ok := holder.Elem().Interface().(Named)
	if _, bare := named.(*Sentinel); !ok || bare {
		return false
	}
	found := find(list, NameOf(named.ErrorName()))
	if found == nil || found.OmittedBytes > 0 {
		return false
	}
	if len(found.Value) > 0 && json.Unmarshal(found.Value, holder.Interface()) != nil {
		return false
	}
	at.Elem().Set(holder.Elem())
	return true
}

func find(list []Detail, name string) *Detail {
	for i := range list {
		if list[i].Name == name {
			return &list[i]
		}
	}
	return nil
}
