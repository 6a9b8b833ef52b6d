package valueschema

import (
	"cmp"
	"slices"
	"strings"

	validator "github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"

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

// faultsOf turns the tree of the validator's errors into a list, ordered by place.
func faultsOf(subject string, invalid *validator.ValidationError) *fabrictype.ValueError {
	c := collector{printer: message.NewPrinter(language.English)}
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

type collector struct {
	printer *message.Printer
	faults  []placedFault
}

func (c *collector) add(place []string, message string) {
	c.faults = append(c.faults, placedFault{place: place, message: message})
}

func (c *collector) collect(e *validator.ValidationError) {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			c.add(below(e.InstanceLocation, name), "is missing")
		}
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			c.add(below(e.InstanceLocation, name), "is not in the schema")
		}
	case *kind.AnyOf:
		c.add(e.InstanceLocation, c.alternatives(e))
	case *kind.OneOf:
		if len(e.Causes) == 0 {
			c.add(e.InstanceLocation, "fits more than one alternative of oneOf")
			return
		}
		c.add(e.InstanceLocation, c.alternatives(e))
	default:
		for _, cause := range e.Causes {
			c.collect(cause)
		}
		if len(e.Causes) == 0 {
			c.add(e.InstanceLocation, e.ErrorKind.LocalizedString(c.printer))
		}
	}
}

// alternatives is one message for all alternatives that do not fit: they are not faults beside each other.
func (c *collector) alternatives(e *validator.ValidationError) string {
	var why []string
	for _, cause := range e.Causes {
		one := collector{printer: c.printer}
		one.collect(cause)
		var faults []string
		for _, fault := range one.faults {
			place := fault.place[min(len(e.InstanceLocation), len(fault.place)):]
			faults = append(faults, fabrictype.ValueFault{Pointer: pointerOf(place), Message: fault.message}.String())
		}
		slices.Sort(faults)
		why = append(why, strings.Join(faults, ", "))
	}
	return "fits no alternative: " + strings.Join(why, "; or ")
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

var pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")

func escaped(name string) string { return pointerEscapes.Replace(name) }

func shortened(text string) string {
	if len(text) <= maxMessage {
		return text
	}
	return strings.ToValidUTF8(text[:maxMessage], "") + "…"
}
