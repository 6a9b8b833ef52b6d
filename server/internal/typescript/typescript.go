package typescript

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/flowfabric/flowfabric-go/api"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

const head = `// Code generated from the table of operations by ` + "`make generate`" + `. DO NOT EDIT.
//
// Types of the HTTP API: the schemas of openapi.json, then what each operation takes and returns, then the table.
import type { Raw } from "../lib/raw";

/** A page of a list. */
export interface Page<T> {
  items: T[];
  /** Cursor of the next page; absent on the last one. */
  next?: string;
  /** Older items may be missing: the index of the words keeps the newest runs. */
  incomplete?: boolean;
}

/** A page of a stream. */
export interface Events<T> {
  items: T[];
  /** Cursor after the last item. */
  next?: string;
  /** Nothing follows. */
  end?: boolean;
}
`

const refTo = "#/components/schemas/"

// width is the longest line of a comment.
const width = 116

// writer collects the text of the types.
type writer struct {
	strings.Builder
	doc *huma.OpenAPI
	// inputs and outputs are the schemas that requests and replies have.
	inputs, outputs map[string]bool
	// raw are the names of properties of replies whose values are any JSON, wherever they occur.
	raw map[string]bool
	// enums are the named texts with their values.
	enums map[string][]any
}

// Types returns the source of the types. It fails if the document lacks an operation of the table.
func Types(doc *huma.OpenAPI) (string, error) {
	w := &writer{doc: doc, inputs: map[string]bool{}, outputs: map[string]bool{}, enums: map[string][]any{}}
	described := make([]*huma.Operation, 0, 128)
	for _, op := range httpapi.Operations() {
		found := find(doc, op)
		if found == nil {
			return "", fmt.Errorf("operation %s has no route", op.Name)
		}
		described = append(described, found)
		if found.RequestBody != nil {
			w.reach(found.RequestBody.Content["application/json"].Schema, w.inputs)
		}
		if out := output(found); out != nil {
			w.reach(out, w.outputs)
		}
	}
	w.reach(doc.Components.Schemas.Schema(reflect.TypeFor[api.Problem](), true, ""), w.outputs)
	w.raw = w.rawNames()
	w.findEnums()

	w.WriteString(head)
	w.components()
	w.namedEnums()
	for i, op := range httpapi.Operations() {
		w.operation(op, described[i])
	}
	w.table(described)
	w.rawKeys()
	return w.String(), nil
}

func find(doc *huma.OpenAPI, op httpapi.Operation) *huma.Operation {
	item := doc.Paths[httpapi.Prefix+op.Path]
	if item == nil {
		return nil
	}
	return map[string]*huma.Operation{
		"GET": item.Get, "POST": item.Post, "PUT": item.Put, "DELETE": item.Delete, "PATCH": item.Patch,
	}[op.Method]
}

// output returns the schema of the reply of an operation; nil if it has none.
func output(op *huma.Operation) *huma.Schema {
	for _, status := range []string{"200", "201"} {
		if reply := op.Responses[status]; reply != nil && reply.Content["application/json"] != nil {
			return reply.Content["application/json"].Schema
		}
	}
	return nil
}

// reach adds the named schemas that a schema refers to.
func (w *writer) reach(s *huma.Schema, into map[string]bool) {
	if s == nil {
		return
	}
	if s.Ref != "" {
		name := nameOf(s.Ref)
		if into[name] {
			return
		}
		into[name] = true
		s = w.doc.Components.Schemas.SchemaFromRef(s.Ref)
	}
	w.reach(s.Items, into)
	if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
		w.reach(more, into)
	}
	for _, property := range s.Properties {
		w.reach(property, into)
	}
}

func nameOf(ref string) string { return ref[strings.LastIndexByte(ref, '/')+1:] }

// generic returns the name of the generic type and the schema of its argument: Page and Run for PageRun.
func (w *writer) generic(name string) (string, *huma.Schema) {
	t := w.doc.Components.Schemas.TypeFromRef(refTo + name)
	base, _, found := strings.Cut(t.Name(), "[")
	if !found || base != "Page" && base != "Events" {
		return "", nil
	}
	return base, w.doc.Components.Schemas.Map()[name].Properties["items"].Items
}

func (w *writer) schemas() []string {
	all := maps.Clone(w.inputs)
	maps.Copy(all, w.outputs)
	return slices.Sorted(maps.Keys(all))
}

// components writes the named schemas.
func (w *writer) components() {
	for _, name := range w.schemas() {
		if base, _ := w.generic(name); base != "" {
			continue
		}
		s := w.doc.Components.Schemas.Map()[name]
		fmt.Fprintf(w, "\nexport interface %s {\n", name)
		for _, key := range properties(s, w.doc.Components.Schemas.TypeFromRef("#/components/schemas/"+name)) {
			property := s.Properties[key]
			w.comment("  ", property.Description)
			mark := "?"
			if slices.Contains(s.Required, key) {
				mark = ""
			}
			fmt.Fprintf(w, "  %s%s: %s;\n", key, mark, w.property(name, key, property))
		}
		w.WriteString("}\n")
	}
}

// properties returns the names of the properties of a schema in the order of the fields of its type.
func properties(s *huma.Schema, t reflect.Type) []string {
	var order []string
	for _, field := range reflect.VisibleFields(t) {
		if name := jsonName(field); s.Properties[name] != nil && !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		if !slices.Contains(order, name) {
			order = append(order, name)
		}
	}
	return order
}

func jsonName(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// property returns the type of a property of a named schema.
func (w *writer) property(schema, key string, s *huma.Schema) string {
	if isAny(s) {
		if w.raw[key] && !w.inputs[schema] {
			return "Raw"
		}
		return "unknown"
	}
	if named := w.enumOf(schema, key, s); named != "" {
		return named
	}
	return w.typeOf(s)
}

// enumOf returns the name of the text type of a property, or of its elements, if it has a name in Go and may have each
// of its values.
func (w *writer) enumOf(schema, key string, s *huma.Schema) string {
	values, suffix := enumValues(s)
	t := w.textType(schema, key)
	if t == nil || len(values) == 0 || len(values) < len(w.enums[t.Name()]) {
		return ""
	}
	return t.Name() + suffix
}

func enumValues(s *huma.Schema) (values []any, suffix string) {
	if s.Items != nil {
		return s.Items.Enum, "[]"
	}
	return s.Enum, ""
}

// textType returns the type of a property, or of its elements, if it is a text with a name.
func (w *writer) textType(schema, key string) reflect.Type {
	for _, field := range reflect.VisibleFields(w.doc.Components.Schemas.TypeFromRef(refTo + schema)) {
		t := field.Type
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if jsonName(field) == key && t.Kind() == reflect.String && t.PkgPath() != "" {
			return t
		}
	}
	return nil
}

// findEnums finds the named texts that have a list of values: the longest that a property has.
func (w *writer) findEnums() {
	for _, name := range w.schemas() {
		for key, property := range w.doc.Components.Schemas.Map()[name].Properties {
			values, _ := enumValues(property)
			if t := w.textType(name, key); t != nil && len(values) > len(w.enums[t.Name()]) {
				w.enums[t.Name()] = values
			}
		}
	}
}

func (w *writer) namedEnums() {
	for _, name := range slices.Sorted(maps.Keys(w.enums)) {
		fmt.Fprintf(w, "\nexport type %s = %s;\n", name, union(w.enums[name], ""))
	}
}

func union(values []any, suffix string) string {
	texts := make([]string, len(values))
	for i, v := range values {
		texts[i] = fmt.Sprintf("%q", v)
	}
	text := strings.Join(texts, " | ")
	if suffix != "" && len(texts) > 1 {
		text = "(" + text + ")"
	}
	return text + suffix
}

// isAny reports whether values of the schema are any JSON.
func isAny(s *huma.Schema) bool { return s.Ref == "" && s.Type == "" }

// typeOf returns the type of a schema.
func (w *writer) typeOf(s *huma.Schema) string {
	switch {
	case s.Ref != "":
		name := nameOf(s.Ref)
		if base, argument := w.generic(name); base != "" {
			return base + "<" + w.typeOf(argument) + ">"
		}
		return name
	case len(s.Enum) > 0:
		return union(s.Enum, "")
	}
	switch s.Type {
	case huma.TypeString:
		return "string"
	case huma.TypeInteger, huma.TypeNumber:
		return "number"
	case huma.TypeBoolean:
		return "boolean"
	case huma.TypeArray:
		item := w.typeOf(s.Items)
		if strings.Contains(item, " | ") {
			item = "(" + item + ")"
		}
		return item + "[]"
	case huma.TypeObject:
		if more, ok := s.AdditionalProperties.(*huma.Schema); ok {
			return "Record<string, " + w.typeOf(more) + ">"
		}
	}
	return "unknown"
}

// rawNames returns the names of properties whose values are any JSON in all replies that have such a property.
func (w *writer) rawNames() map[string]bool {
	raw, typed := map[string]bool{}, map[string]bool{}
	for name := range w.outputs {
		for key, property := range w.doc.Components.Schemas.Map()[name].Properties {
			if isAny(property) {
				raw[key] = true
			} else {
				typed[key] = true
			}
		}
	}
	maps.DeleteFunc(raw, func(key string, _ bool) bool { return typed[key] })
	return raw
}

func (w *writer) rawKeys() {
	w.WriteString("\n// rawKeys are the properties of replies whose values are kept as Raw.\n")
	w.WriteString("export const rawKeys: readonly string[] = [\n")
	for _, key := range slices.Sorted(maps.Keys(w.raw)) {
		fmt.Fprintf(w, "  %q,\n", key)
	}
	w.WriteString("];\n")
}

// comment writes a comment, if there is something to say.
func (w *writer) comment(indent, text string) {
	if text == "" {
		return
	}
	if text = strings.ReplaceAll(text, "*/", "* /"); len(indent)+len(text)+7 <= width {
		fmt.Fprintf(w, "%s/** %s */\n", indent, text)
		return
	}
	fmt.Fprintf(w, "%s/**\n", indent)
	line := indent + " *"
	for _, word := range strings.Fields(text) {
		if len(line)+1+len(word) > width {
			w.WriteString(line + "\n")
			line = indent + " *"
		}
		line += " " + word
	}
	fmt.Fprintf(w, "%s\n%s */\n", line, indent)
}
