package mcpserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/flowfabric/flowfabric-go/fabrictype"
	"github.com/flowfabric/flowfabric-go/internal/activityspec"
	"github.com/flowfabric/flowfabric-go/internal/httpapi"
)

// argument is a field of an input as an argument of a tool: a parameter of the path or the query, the body, or the
// query that package runtime reads.
type argument struct {
	name, doc string
	required  bool
	field     []int
	kind      reflect.Type
}

const (
	bodyArgument  = "body"
	queryArgument = "query"
)

// argumentsOf returns the arguments of an input. Headers are none: they are for programs.
func argumentsOf(input reflect.Type, at []int) []argument {
	var list []argument
	for i := range input.NumField() {
		field := input.Field(i)
		place := append(slices.Clone(at), i)
		name, _, _ := strings.Cut(field.Tag.Get("query"), ",")
		switch {
		case field.Anonymous:
			list = append(list, argumentsOf(field.Type, place)...)
		case field.Name == "Body":
			list = append(list, argument{name: bodyArgument, required: true, field: place, kind: field.Type})
		case field.Type == reflect.TypeFor[url.Values]():
			list = append(list, argument{
				name: queryArgument, field: place, kind: field.Type,
				doc: "Selects by name and value, such as {\"flow\":\"orders\",\"state\":\"failed\"}.",
			})
		case field.Tag.Get("path") != "":
			list = append(list, argument{
				name: field.Tag.Get("path"), doc: field.Tag.Get("doc"), required: true, field: place, kind: field.Type,
			})
		case name != "":
			list = append(list, argument{
				name: name, doc: field.Tag.Get("doc"), required: field.Tag.Get("required") == "true", field: place,
				kind: field.Type,
			})
		}
	}
	return list
}

// schemaOf returns the schema of the arguments of a tool.
func schemaOf(op httpapi.Operation) (*jsonschema.Schema, error) {
	schema := &jsonschema.Schema{
		Type: "object", Properties: map[string]*jsonschema.Schema{},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	options := &jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[fabrictype.Duration](): {Type: "string", Description: "A duration such as 90s or 1h30m."},
		reflect.TypeFor[json.RawMessage]():     {Description: "Any JSON."},
	}}
	for _, a := range argumentsOf(op.Input, nil) {
		var property *jsonschema.Schema
		var err error
		if a.kind == reflect.TypeFor[url.Values]() {
			texts := &jsonschema.Schema{Types: []string{"string", "array"}}
			property = &jsonschema.Schema{Type: "object", AdditionalProperties: texts}
			a.doc += " Parameters: " + strings.Join(queryNames(op.Query), ", ") + "."
		} else if property, err = jsonschema.ForType(a.kind, options); err != nil {
			return nil, fmt.Errorf("%s: %w", a.name, err)
		}
		if a.name == bodyArgument {
			describeFields(property, a.kind)
		}
		if a.doc != "" {
			property.Description = a.doc
		}
		schema.Properties[a.name] = property
		if a.required {
			schema.Required = append(schema.Required, a.name)
		}
	}
	return schema, nil
}

// describeFields adds the descriptions of the fields of a body, and of those within them.
func describeFields(schema *jsonschema.Schema, body reflect.Type) {
	for i := range body.NumField() {
		field := body.Field(i)
		if field.Anonymous {
			describeFields(schema, field.Type)
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		property := schema.Properties[name]
		if property == nil {
			continue
		}
		if doc := field.Tag.Get("doc"); doc != "" {
			property.Description = doc
		}
		kind := field.Type
		for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
			if kind = kind.Elem(); property.Items != nil {
				property = property.Items
			}
		}
		if kind.Kind() == reflect.Struct && property.Properties != nil {
			describeFields(property, kind)
		}
	}
}

// queryNames are the parameters of queries.
func queryNames(query string) []string {
	switch query {
	case httpapi.QueryRuns:
		return []string{
			"search", "search_at", "run", "flow", "state", "text", "tag.<key>", "key", "queued", "created_from",
			"created_before", "finished_from", "finished_before", "sort", "children",
		}
	case httpapi.QueryWaits:
		return []string{"flow", "audience", "text", "tag.<key>", "from", "before", "sort"}
	default:
		return nil
	}
}

// inputOf returns the input of an operation from the arguments of a tool. An unknown argument is an error.
func inputOf(op httpapi.Operation, text json.RawMessage) (any, error) {
	given := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(text)) > 0 {
		if err := activityspec.CheckJSON(text); err != nil {
			return nil, fmt.Errorf("%s: arguments: %w", op.Name, err)
		}
		if err := json.Unmarshal(text, &given); err != nil {
			return nil, fmt.Errorf("%s: arguments: must be an object: %w", op.Name, err)
		}
	}
	in := reflect.New(op.Input).Elem()
	var known []string
	for _, a := range argumentsOf(op.Input, nil) {
		known = append(known, a.name)
		value, ok := given[a.name]
		delete(given, a.name)
		if !ok && a.required && a.name != bodyArgument {
			return nil, fmt.Errorf("%s: argument %q is missing", op.Name, a.name)
		}
		if !ok {
			continue
		}
		if err := setArgument(in.FieldByIndex(a.field), value); err != nil {
			return nil, fmt.Errorf("%s: argument %q: %w", op.Name, a.name, err)
		}
	}
	for name := range given {
		return nil, fmt.Errorf("%s: there is no argument %q; there are: %s", op.Name, name, strings.Join(known, ", "))
	}
	return in.Interface(), nil
}

func setArgument(field reflect.Value, value json.RawMessage) error {
	if field.Type() != reflect.TypeFor[url.Values]() {
		decoder := json.NewDecoder(bytes.NewReader(value))
		decoder.DisallowUnknownFields()
		return decoder.Decode(field.Addr().Interface())
	}
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber() // numbers are taken as they are written
	var query map[string]any
	if err := decoder.Decode(&query); err != nil {
		return err
	}
	values := url.Values{}
	for name, v := range query {
		list, ok := v.([]any)
		if !ok {
			list = []any{v}
		}
		for _, element := range list {
			switch element.(type) {
			case string, bool, json.Number:
				values.Add(name, fmt.Sprint(element))
			default:
				return fmt.Errorf("%q: must be a text, a number, true, false or a list of them", name)
			}
		}
	}
	field.Set(reflect.ValueOf(values))
	return nil
}
