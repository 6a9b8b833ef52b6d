// Package queryurl writes queries as parameters of a URL and reads them, for the query types of package runtime.
package queryurl

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"
)

// tagParameter is the prefix of parameters for tags; the tag's key follows.
const tagParameter = "tag."

// Fields are the fields of a query by the names of their parameters. A field that is empty has no parameter.
type Fields struct {
	Texts map[string]*string
	// Lists have a parameter for each of their values.
	Lists map[string]*[]string
	// Times are written as RFC 3339, in UTC.
	Times map[string]*time.Time
	// Switches are written as true.
	Switches map[string]*bool
	// Tags have a parameter tag.KEY each.
	Tags *map[string]string
}

// Values returns the parameters.
func (f Fields) Values() url.Values {
	v := url.Values{}
	for name, text := range f.Texts {
		if *text != "" {
			v.Set(name, *text)
		}
	}
	for name, list := range f.Lists {
		for _, value := range *list {
			v.Add(name, value)
		}
	}
	for name, at := range f.Times {
		if !at.IsZero() {
			v.Set(name, at.UTC().Format(time.RFC3339Nano))
		}
	}
	for name, on := range f.Switches {
		if *on {
			v.Set(name, "true")
		}
	}
	for key, value := range *f.Tags {
		v.Set(tagParameter+key, value)
	}
	return v
}

// Read sets the fields from parameters, as Values writes them, and returns all faults, in the order of the parameters.
// Parameters named by others are passed over.
func (f Fields) Read(v url.Values, others []string) (faults []error) {
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if slices.Contains(others, name) {
			continue
		}
		if err := f.read(name, v[name]); err != nil {
			faults = append(faults, err)
		}
	}
	return faults
}

func (f Fields) read(name string, values []string) (err error) {
	if list := f.Lists[name]; list != nil {
		*list = append(*list, values...)
		return nil
	}
	if len(values) != 1 {
		return fmt.Errorf("parameter %q: must be given once, not %d times", name, len(values))
	}
	value := values[0]
	key, isTag := strings.CutPrefix(name, tagParameter)
	text, at, on := f.Texts[name], f.Times[name], f.Switches[name]
	switch {
	case isTag:
		if *f.Tags == nil {
			*f.Tags = make(map[string]string)
		}
		(*f.Tags)[key] = value
	case text != nil:
		*text = value
	case at != nil:
		if *at, err = time.Parse(time.RFC3339Nano, value); err != nil {
			return fmt.Errorf("parameter %q: %q is not a time such as 2026-11-20T08:00:00Z", name, value)
		}
	case on != nil:
		if value != "true" && value != "false" {
			return fmt.Errorf("parameter %q: %q must be true or false", name, value)
		}
		*on = value == "true"
	default:
		return fmt.Errorf("parameter %q is unknown", name)
	}
	return nil
}
