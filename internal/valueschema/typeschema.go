package valueschema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// typeSchema is the schema of a Go type. It marshals as JSON Schema.
type typeSchema struct {
	name string // of a property

	Type        types       `json:"type,omitempty"` // empty for any value
	Properties  properties  `json:"properties,omitempty"`
	Items       *typeSchema `json:"items,omitempty"`
	Description string      `json:"description,omitempty"`
	Minimum     *int64      `json:"minimum,omitempty"`
	Maximum     *int64      `json:"maximum,omitempty"`
	MinItems    *int        `json:"minItems,omitempty"`
	MaxItems    *int        `json:"maxItems,omitempty"`
	Required    []string    `json:"required,omitempty"`
	// AdditionalProperties is false where there are none, and otherwise a *typeSchema or nil.
	AdditionalProperties any    `json:"additionalProperties,omitempty"`
	ContentEncoding      string `json:"contentEncoding,omitempty"`
	Format               string `json:"format,omitempty"`
}

// MarshalJSON implements json.Marshaler. The schema of any value is true.
func (s *typeSchema) MarshalJSON() ([]byte, error) {
	type plain typeSchema
	data, err := json.Marshal((*plain)(s))
	if err == nil && string(data) == "{}" {
		data = []byte("true")
	}
	return data, err
}

// addNull allows null.
func (s *typeSchema) addNull() {
	if len(s.Type) > 0 && !slices.Contains(s.Type, "null") {
		s.Type = slices.Insert(s.Type, 0, "null")
	}
}

// loosen turns the schema of what is written into that of what is read.
func (s *typeSchema) loosen() {
	if s == nil {
		return
	}
	s.addNull()
	s.Required, s.MinItems, s.MaxItems = nil, nil, nil
	s.Items.loosen()
	if others, ok := s.AdditionalProperties.(*typeSchema); ok {
		others.loosen()
	} else {
		s.AdditionalProperties = nil
	}
	for _, property := range s.Properties {
		property.loosen()
	}
}

// types are the types of a value. One alone is a text.
type types []string

// MarshalJSON implements json.Marshaler.
func (t types) MarshalJSON() ([]byte, error) {
	if len(t) == 1 {
		return json.Marshal(t[0])
	}
	return json.Marshal([]string(t))
}

// properties are written in the order of the fields.
type properties []*typeSchema

// MarshalJSON implements json.Marshaler.
func (p properties) MarshalJSON() ([]byte, error) {
	var text bytes.Buffer
	for _, property := range p {
		name, err := json.Marshal(property.name)
		if err != nil {
			return nil, err
		}
		schema, err := json.Marshal(property)
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&text, ",%s:%s", name, schema)
	}
	return fmt.Appendf(nil, "{%s}", bytes.TrimPrefix(text.Bytes(), []byte(","))), nil
}
