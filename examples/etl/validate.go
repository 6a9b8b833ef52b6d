package main

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Row is a measurement.
type Row struct {
	Line   int       `json:"line"`
	Time   time.Time `json:"time"`
	Sensor string    `json:"sensor"`
	Value  float64   `json:"value"`
	Unit   string    `json:"unit"`
}

// Refusal is why a line of a file is not loaded.
type Refusal struct {
	Line   int    `json:"line"`
	Reason string `json:"reason"`
}

// Table is the rows of a file that are loaded, and those that are not.
type Table struct {
	File    File      `json:"file"`
	Key     string    `json:"key"`
	Rows    []Row     `json:"rows"`
	Refused []Refusal `json:"refused"`
}

// unit is a unit in which a sensor measures: a value v is v*factor+offset in the unit of the warehouse.
type unit struct{ factor, offset float64 }

// sensor is a kind of sensor: the unit of the warehouse, the values that are possible in it, and all units.
type sensor struct {
	unit     string
	min, max float64
	units    map[string]unit
}

var sensors = map[string]sensor{
	"temperature": {"C", -90, 60, map[string]unit{"C": {1, 0}, "F": {5.0 / 9, -160.0 / 9}}},
	"pressure":    {"hPa", 850, 1100, map[string]unit{"hPa": {1, 0}, "kPa": {10, 0}}},
	"humidity":    {"%", 0, 100, map[string]unit{"%": {1, 0}}},
}

// Validate separates the rows that can be loaded from the others. A file of which more than half of the rows are
// refused fails: its sender has to check it.
func Validate(_ context.Context, x Extracted) (Table, error) {
	t := Table{File: x.File, Key: x.Key, Rows: []Row{}, Refused: []Refusal{}}
	for _, raw := range x.Rows {
		row, fault := parse(raw)
		if fault != "" {
			t.Refused = append(t.Refused, Refusal{raw.Line, fault})
			continue
		}
		t.Rows = append(t.Rows, row)
	}
	if len(t.Refused) > len(x.Rows)/2 {
		return Table{}, fail(x.File, categoryQuality, "%d of %d rows are refused, the first at line %d: %s",
			len(t.Refused), len(x.Rows), t.Refused[0].Line, t.Refused[0].Reason)
	}
	return t, nil
}

// parse returns the measurement of a row, or why it is none.
func parse(raw RawRow) (Row, string) {
	if raw.Fault != "" {
		return Row{}, raw.Fault
	}
	at, err := time.Parse(time.RFC3339, raw.Time)
	if err != nil {
		return Row{}, fmt.Sprintf("time %q: must be in the form of RFC 3339", raw.Time)
	}
	kind, known := sensors[raw.Sensor]
	if !known {
		return Row{}, fmt.Sprintf("sensor %q: is not known", raw.Sensor)
	}
	in, known := kind.units[raw.Unit]
	if !known {
		return Row{}, fmt.Sprintf("unit %q: is none of %s", raw.Unit, raw.Sensor)
	}
	value, err := strconv.ParseFloat(raw.Value, 64)
	if err != nil {
		return Row{}, fmt.Sprintf("value %q: must be a number", raw.Value)
	}
	if v := in.convert(value); !(v >= kind.min && v <= kind.max) {
		return Row{}, fmt.Sprintf("value %s %s: must be %v to %v %s",
			raw.Value, raw.Unit, kind.min, kind.max, kind.unit)
	}
	return Row{raw.Line, at, raw.Sensor, value, raw.Unit}, ""
}

// convert returns a value in the unit of the warehouse, to three decimals.
func (u unit) convert(v float64) float64 { return math.Round((v*u.factor+u.offset)*1000) / 1000 }

// Transform converts the rows to UTC and to the units of the warehouse.
func Transform(_ context.Context, t Table) (Table, error) {
	rows := make([]Row, len(t.Rows))
	for i, r := range t.Rows {
		kind := sensors[r.Sensor]
		rows[i] = Row{r.Line, r.Time.UTC(), r.Sensor, kind.units[r.Unit].convert(r.Value), kind.unit}
	}
	t.Rows = rows
	return t, nil
}
