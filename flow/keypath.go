package flow

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/flowfabric/flowfabric-go/internal/flowgraph"
)

// keyPaths reports paths to keys (of FairBy, budgets and limits) that no input of the type has. Faults of a particular
// input, a nil pointer or a missing entry of a map, are found when a run is started.
func (b *builder) keyPaths(input reflect.Type, found *flowgraph.FaultList) {
	if b.graph.Codec != flowgraph.StoredCodec {
		return
	}
	check := func(node, place, what string, path []string) {
		if fault := keyFault(input, path); fault != "" {
			found.Add(node, place, flowgraph.ErrUnknownField, "%s%q: %s", what, strings.Join(path, "."), fault)
		}
	}
	check("", "fair_by", "", b.graph.FairBy)
	for _, budget := range b.graph.Budgets {
		check("", "budgets", fmt.Sprintf("budget %q takes its key from ", budget.Name), budget.KeyFrom)
	}
	for _, node := range b.graph.Nodes {
		for _, limit := range node.Limits {
			check(node.Name, "limits", fmt.Sprintf("limit %q takes its key from ", limit.Name), limit.KeyFrom)
		}
	}
}

// keyFault returns the reason why no value of t has a key at the path, or "".
func keyFault(t reflect.Type, path []string) string {
	if len(path) == 0 {
		return ""
	}
	t, fault := typeAt(t, path)
	if t == nil || fault != "" {
		return fault
	}
	switch t = pointedTo(t); t.Kind() {
	case reflect.Struct, reflect.Map, reflect.Slice, reflect.Array:
		if !hidesForm(t) && !isBytes(t) {
			return fmt.Sprintf("%s is not a text, number or boolean", t)
		}
	}
	return ""
}

// typeAt returns the type of the field at a path in a value of t, or the reason why there is none. Where the JSON form
// of a type on the way is not known, or the validation reports the path, it returns neither.
func typeAt(t reflect.Type, path []string) (found reflect.Type, fault string) {
	for _, name := range path {
		if name == "" {
			return nil, "" // reported by the validation
		}
		t = pointedTo(t)
		switch {
		case hidesForm(t):
			return nil, ""
		case t.Kind() == reflect.Map:
			t = t.Elem()
			continue
		case t.Kind() != reflect.Struct:
			return nil, fmt.Sprintf("%s has no fields", t)
		}
		fields := fieldsOf(t)
		field, ok := fields.byName[name]
		if !ok {
			return nil, fmt.Sprintf("%s has no JSON field %q; it has %s", t, name, fields.names())
		}
		t = field.Go.Type
	}
	return t, ""
}

func pointedTo(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// isBytes reports whether a type is written as a text, in base64.
func isBytes(t reflect.Type) bool {
	return t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8
}

// hidesForm reports whether the JSON form of a type differs from its fields.
func hidesForm(t reflect.Type) bool {
	pointer := reflect.PointerTo(t)
	return t.Kind() == reflect.Interface || pointer.Implements(reflect.TypeFor[json.Marshaler]()) ||
		pointer.Implements(reflect.TypeFor[encoding.TextMarshaler]())
}
