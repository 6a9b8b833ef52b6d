package valueschema

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
)

// HashBytes is the length of the result of Hash.
const HashBytes = 8

// Hash returns a short hash of the JSON that is read into a type: of the names and kinds of its fields, but not of
// their order, their descriptions, and the names of Go types. It is empty for a type without JSON.
func Hash(t reflect.Type) string {
	schema, err := (&inference{}).schemaOf(t)
	if err != nil {
		return ""
	}
	schema.loosen()
	schema.normalize()
	data, err := json.Marshal(schema)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:HashBytes/2])
}

// normalize removes the differences between schemas of the same JSON.
func (s *typeSchema) normalize() {
	if s == nil {
		return
	}
	s.Description = ""
	slices.SortFunc(s.Properties, func(a, b *typeSchema) int { return cmp.Compare(a.name, b.name) })
	for _, property := range s.Properties {
		property.normalize()
	}
	s.Items.normalize()
	if others, ok := s.AdditionalProperties.(*typeSchema); ok {
		others.normalize()
	}
}
