package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

const (
	stations = 40
	// The files of these stations fail.
	wrongHeader  = 12
	mostlyBroken = 23
	notAFile     = 30
)

// makeData makes a folder of measurements, the same each time: a file for each station, every other one in CSV. A
// folder that exists is left as it is.
func makeData(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A folder that was left unfinished does not have the name. Another process may make the same at the same time.
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	draft, err := os.MkdirTemp(filepath.Dir(dir), "draft-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(draft)
	for station := range stations {
		if err := makeStation(draft, station); err != nil {
			return err
		}
	}
	if err := os.Rename(draft, dir); err != nil {
		if _, there := os.Stat(dir); there == nil {
			return nil
		}
		return err
	}
	return nil
}

func makeStation(dir string, station int) error {
	name := fmt.Sprintf("station-%02d.csv", station)
	if station%2 == 1 {
		name = fmt.Sprintf("station-%02d.jsonl", station)
	}
	path := filepath.Join(dir, name)
	if station == notAFile {
		return os.Mkdir(path, 0o755)
	}
	return os.WriteFile(path, content(station), 0o644)
}

// start is the time of the first measurement of each station.
var start = time.Date(2026, 3, 1, 0, 0, 0, 0, time.FixedZone("CET", 3600))

// content returns the file of a station.
func content(station int) []byte {
	random := rand.New(rand.NewPCG(1, uint64(station)))
	var b bytes.Buffer
	format := `{"time":"%s","sensor":"%s","value":%s,"unit":"%s"}` + "\n"
	if station%2 == 0 {
		format = "%s,%s,%s,%s\n"
		header := "time,sensor,value,unit"
		if station == wrongHeader {
			header = "when;what;how much"
		}
		fmt.Fprintln(&b, header)
	}
	for i := range 60 + station*7%41 {
		at := start.Add(time.Duration(i) * 10 * time.Minute).Format(time.RFC3339)
		kind, value, unit := measurement(random, i)
		if station == mostlyBroken && i%3 != 0 || station%5 == 3 && i%13 == 5 || station%7 == 2 && i%17 == 9 {
			spoil(i, &at, &kind, &value, &unit)
		}
		fmt.Fprintf(&b, format, at, kind, value, unit)
	}
	return b.Bytes()
}

func measurement(random *rand.Rand, i int) (kind, value, unit string) {
	x := random.Float64()
	switch i % 5 {
	case 0:
		return "temperature", fmt.Sprintf("%.1f", -10+35*x), "C"
	case 1:
		return "temperature", fmt.Sprintf("%.1f", 20+60*x), "F"
	case 2:
		return "pressure", fmt.Sprintf("%.1f", 980+60*x), "hPa"
	case 3:
		return "pressure", fmt.Sprintf("%.2f", 98+6*x), "kPa"
	}
	return "humidity", fmt.Sprintf("%.0f", 20+80*x), "%"
}

// spoil breaks a row in one of several ways.
func spoil(i int, at, kind, value, unit *string) {
	switch i % 5 {
	case 0:
		*value = `"n/a"`
	case 1:
		*value = "9999"
	case 2:
		*unit = "furlong"
	case 3:
		*at = "yesterday"
	case 4:
		*kind = "mood"
	}
}
