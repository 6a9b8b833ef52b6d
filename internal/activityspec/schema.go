package activityspec

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// schemaDrafts has the names of the drafts of JSON Schema whose $schema is known.
var schemaDrafts = map[string]string{
	"json-schema.org/draft/2020-12/schema": "2020-12",
	"json-schema.org/draft/2019-09/schema": "2019-09",
	"json-schema.org/draft-07/schema":      "7",
	"json-schema.org/draft-06/schema":      "6",
	"json-schema.org/draft-05/schema":      "5",
	"json-schema.org/draft-04/schema":      "4",
	"json-schema.org/draft-03/schema":      "3",
}

// valueKeywords are the keywords whose values are not schemas, even if they have the form of one.
var valueKeywords = []string{"const", "default", "enum", "examples"}

// maxSchemaDepth bounds how deep the parts of a schema are nested: validators take time with the square of it.
const maxSchemaDepth = 256

// CheckSchema refuses a JSON Schema, decoded, that is of another draft than 2020-12, or has a part that is: keywords of
// other drafts would be read with another meaning, or none. It also refuses one that is nested too deep. Whether the
// schema is one in other respects is left to package valueschema.
func CheckSchema(schema any) error { return checkPart(schema, "") }

func checkPart(schema any, place string) error {
	if strings.Count(place, "/") > maxSchemaDepth {
		return fmt.Errorf("it is nested more than %d deep", maxSchemaDepth)
	}
	switch v := schema.(type) {
	case []any:
		for i, item := range v {
			if err := checkPart(item, place+"/"+strconv.Itoa(i)); err != nil {
				return err
			}
		}
	case map[string]any:
		if uri, ok := v["$schema"].(string); ok {
			if err := checkDraft(uri); err != nil {
				return fmt.Errorf("%s/$schema: %w", place, err)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if slices.Contains(valueKeywords, name) {
				continue
			}
			if err := checkPart(v[name], place+"/"+pointerNames.Replace(name)); err != nil {
				return err
			}
		}
	}
	return nil
}

var pointerNames = strings.NewReplacer("~", "~0", "/", "~1")

func checkDraft(uri string) error {
	bare := strings.TrimSuffix(uri, "#")
	bare = strings.TrimPrefix(strings.TrimPrefix(bare, "https://"), "http://")
	switch name := schemaDrafts[bare]; name {
	case "2020-12":
		return nil
	case "":
		return fmt.Errorf("%q is not a draft of JSON Schema: schemas are of draft 2020-12", uri)
	default:
		return fmt.Errorf("draft %s is not supported: schemas are of draft 2020-12", name)
	}
}
