package valueschema

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/flowfabric/flowfabric-go/fabrictype"
)

// maxMessage bounds the message of one fault, in bytes: it can quote the value.
const maxMessage = 500

type placedFault struct {
	place   []string
	message string
}

// maxFaults is how many faults an error lists. Its More counts the others.
const maxFaults = 100

// faultsOf turns the tree of the validator's errors into a list, ordered by location.
func faultsOf(subject string, invalid *jsonschema.ValidationError, s *Schema, value any) *fabrictype.ValueError {
	c := collector{schema: s, value: value}
	c.collect(invalid)
	faults := c.faults
	slices.SortFunc(faults, func(a, b placedFault) int {
		return cmp.Or(slices.CompareFunc(a.place, b.place, compareNames), cmp.Compare(a.message, b.message))
	})
	faults = slices.CompactFunc(faults, func(a, b placedFault) bool {
		return a.message == b.message && slices.Equal(a.place, b.place)
	})
	listed := faults[:min(len(faults), maxFaults)]
	result := &fabrictype.ValueError{Subject: subject, More: len(faults) - len(listed)}
	for _, fault := range listed {
		place, text := pointerOf(fault.place), shortened(fault.message)
		result.Faults = append(result.Faults, fabrictype.ValueFault{Pointer: place, Message: text})
	}
	return result
}

// collector collects the faults of a value. It reads from the schema and the value the details that the texts of the
// validator round or leave out.
type collector struct {
	schema *Schema // nil if the value is a schema itself
	value  any
	faults []placedFault
}

func (c *collector) add(place []string, format string, args ...any) {
	c.faults = append(c.faults, placedFault{place: place, message: fmt.Sprintf(format, args...)})
}

func (c *collector) collect(e *jsonschema.ValidationError) {
	place, rule := placeOf(e.InstanceLocation), c.ruleOf(e)
	switch {
	case e.Message == "": // joins the faults of several keywords
		c.collectCauses(e)
	case e.Message == notAllowed:
		c.add(place, "%s", rule.refusal())
	case rule.name == "anyOf" && len(e.Causes) > 0, rule.name == "oneOf" && len(e.Causes) > 0:
		c.add(place, "%s", c.alternatives(e, place))
	case rule.name == "oneOf":
		c.add(place, "fits more than one alternative of oneOf")
	case rule.name == "minContains":
		c.add(place, "has fewer items that fit contains than it must have")
	case len(e.Causes) == 0:
		c.addLeaf(e, place, rule)
	default:
		c.collectCauses(e)
	}
}

func (c *collector) collectCauses(e *jsonschema.ValidationError) {
	for _, cause := range e.Causes {
		c.collect(cause)
	}
}

// addLeaf adds the faults that a keyword without parts has found.
func (c *collector) addLeaf(e *jsonschema.ValidationError, place []string, rule rule) {
	value, known := c.valueAt(e, place)
	if !known || rule.value == nil && rule.name != "const" {
		c.add(place, "%s", e.Message)
		return
	}
	switch rule.name {
	case "required":
		for _, name := range missing(value, rule.value) {
			c.add(below(place, name), "is missing")
		}
	case "dependentRequired":
		c.add(below(place, fmt.Sprint(rule.value)), "is missing")
	case "additionalProperties":
		for _, name := range rule.additional(value) {
			c.add(below(place, name), "is not in the schema")
		}
	case "type":
		c.add(place, "got %s, want %s", typeOf(value), strings.Join(textsOf(rule.value), " or "))
	case "const":
		c.add(place, "must be %s", encoded(rule.value))
	case "enum":
		c.add(place, "must be one of %s", strings.TrimSuffix(strings.TrimPrefix(encoded(rule.value), "["), "]"))
	case "format":
		c.add(place, "%s is not a valid %s", encoded(value), rule.value)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf":
		c.add(place, "%s: got %s, want %s", rule.name, value, rule.value)
	case "not":
		c.add(place, "fits the schema of not")
	default:
		c.add(place, "%s", e.Message)
	}
}

// valueAt returns the part of the value at a location. The names of properties have no separate locations: the
// validator reports the locations of the properties.
func (c *collector) valueAt(e *jsonschema.ValidationError, place []string) (any, bool) {
	if strings.Contains(e.KeywordLocation, "/propertyNames") {
		return nil, false
	}
	return at(c.value, place)
}

// alternatives is one message for all alternatives that do not fit: they are not separate faults.
func (c *collector) alternatives(e *jsonschema.ValidationError, place []string) string {
	var why []string
	for _, cause := range e.Causes {
		one := collector{schema: c.schema, value: c.value}
		one.collect(cause)
		var faults []string
		for _, fault := range one.faults {
			rest := fault.place[min(len(place), len(fault.place)):]
			faults = append(faults, fabrictype.ValueFault{Pointer: pointerOf(rest), Message: fault.message}.String())
		}
		slices.Sort(faults)
		why = append(why, strings.Join(faults, ", "))
	}
	return "fits no alternative: " + strings.Join(why, "; or ")
}

// notAllowed is the validator's text for the schema false.
const notAllowed = "not allowed"

// rule is a keyword of a schema, with its value and the schema around it if they are known.
type rule struct {
	name   string
	value  any
	within map[string]any
}

// ruleOf returns the keyword that has found a fault.
func (c *collector) ruleOf(e *jsonschema.ValidationError) rule {
	address, fragment, _ := strings.Cut(e.AbsoluteKeywordLocation, "#")
	place := placeOf(fragment)
	if len(place) == 0 {
		return rule{}
	}
	r := rule{name: place[len(place)-1]}
	if c.schema == nil || !strings.HasPrefix(c.schema.compiled.Location, address+"#") {
		return r // a part of the schema of schemas
	}
	r.value, _ = at(c.schema.document, place)
	around, _ := at(c.schema.document, place[:len(place)-1])
	r.within, _ = around.(map[string]any)
	if _, isName := r.value.(string); isName && len(place) > 2 && place[len(place)-3] == "dependentRequired" {
		r.name = "dependentRequired"
	}
	return r
}

// refusal returns the reason why the schema false, which a keyword has as its value, takes nothing.
func (r rule) refusal() string {
	if r.name == "unevaluatedProperties" {
		return "is not in the schema"
	}
	return "is not allowed"
}

// additional returns the names of an object that its schema does not have.
func (r rule) additional(object any) []string {
	known, _ := r.within["properties"].(map[string]any)
	patterns, _ := r.within["patternProperties"].(map[string]any)
	fields, _ := object.(map[string]any)
	var names []string
	for name := range fields {
		matches := func(pattern string) bool {
			matched, err := regexp.MatchString(pattern, name)
			return err == nil && matched
		}
		if _, ok := known[name]; !ok && !slices.ContainsFunc(slices.Collect(maps.Keys(patterns)), matches) {
			names = append(names, name)
		}
	}
	return names
}

// missing returns the names of a list that an object does not have.
func missing(object, list any) []string {
	fields, _ := object.(map[string]any)
	return slices.DeleteFunc(textsOf(list), func(name string) bool {
		_, ok := fields[name]
		return ok
	})
}

// textsOf returns the texts of a list, or a single text as a list.
func textsOf(value any) []string {
	list, ok := value.([]any)
	if !ok {
		list = []any{value}
	}
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = fmt.Sprint(item)
	}
	return texts
}

func typeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	default:
		return "number"
	}
}

func encoded(value any) string {
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(value); err != nil {
		return fmt.Sprint(value)
	}
	return strings.TrimSpace(text.String())
}

// at returns the part of a document at a location.
func at(document any, place []string) (any, bool) {
	for _, name := range place {
		switch v := document.(type) {
		case map[string]any:
			part, ok := v[name]
			if !ok {
				return nil, false
			}
			document = part
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(v) {
				return nil, false
			}
			document = v[i]
		default:
			return nil, false
		}
	}
	return document, true
}

// placeOf returns the names in a pointer of the validator, which are escaped as in the fragment of an address.
func placeOf(pointer string) []string {
	if pointer == "" {
		return nil
	}
	place := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, name := range place {
		if plain, err := url.PathUnescape(name); err == nil {
			name = plain
		}
		place[i] = pointerNames.Replace(name)
	}
	return place
}

func below(place []string, name string) []string { return append(slices.Clone(place), name) }

// compareNames orders the indexes of arrays as numbers: a shorter one is the smaller one.
func compareNames(a, b string) int {
	if isIndex(a) && isIndex(b) {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	}
	return cmp.Compare(a, b)
}

func isIndex(name string) bool {
	return name != "" && strings.Trim(name, "0123456789") == ""
}

func pointerOf(place []string) string {
	var pointer strings.Builder
	for _, name := range place {
		pointer.WriteByte('/')
		pointer.WriteString(escaped(name))
	}
	return pointer.String()
}

var (
	pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
	pointerNames   = strings.NewReplacer("~0", "~", "~1", "/")
)

func escaped(name string) string { return pointerEscapes.Replace(name) }

func shortened(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
