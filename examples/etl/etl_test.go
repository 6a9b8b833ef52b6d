package main

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/activity/activitytest"
	"github.com/flowfabric/flowfabric-go/flowtest"
	"github.com/flowfabric/flowfabric-go/internal/test/enginetest"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// newSource makes the files in a folder of the test.
func newSource(t testing.TB) Source {
	t.Helper()
	dir := t.TempDir()
	s := Source{filepath.Join(dir, "measurements"), filepath.Join(dir, "warehouse")}
	require.NoError(t, makeData(s.Data))
	return s
}

// remove removes the file of a station.
func remove(t testing.TB, s Source, station int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.Data, fmt.Sprintf("station-%02d.*", station)))
	require.NoError(t, err)
	require.Len(t, paths, 1)
	require.NoError(t, os.Remove(paths[0]))
}

// expected has the totals of a direct reading of the files, in code that shares nothing with the activities.
type expected struct {
	files, loaded, refused int
	sums                   map[string]float64 // of the loaded values, by sensor
}

// expect reads the files that do not fail.
func expect(t testing.TB, dir string) expected {
	t.Helper()
	want := expected{sums: make(map[string]float64)}
	paths, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	for _, path := range paths {
		if number := filepath.Base(path)[len("station-"):][:2]; number == "12" || number == "23" || number == "30" {
			continue
		}
		want.files++
		for _, record := range records(t, path) {
			if sensor, value, ok := directly(record); ok {
				want.loaded++
				want.sums[sensor] += value
			} else {
				want.refused++
			}
		}
	}
	return want
}

// records returns time, sensor, value and unit of each row of a file.
func records(t testing.TB, path string) [][]string {
	t.Helper()
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	if strings.HasSuffix(path, ".csv") {
		r := csv.NewReader(bytes.NewReader(content))
		r.LazyQuotes = true
		all, err := r.ReadAll()
		require.NoError(t, err)
		return all[1:]
	}
	var all [][]string
	for line := range strings.Lines(string(content)) {
		var fields map[string]any
		require.NoError(t, json.Unmarshal([]byte(line), &fields))
		all = append(all, []string{
			fields["time"].(string), fields["sensor"].(string), fmt.Sprint(fields["value"]), fields["unit"].(string),
		})
	}
	return all
}

// directly returns a value in the unit of the warehouse.
func directly(record []string) (sensor string, value float64, ok bool) {
	value, err := strconv.ParseFloat(record[2], 64)
	if err != nil || value == 9999 || !strings.HasPrefix(record[0], "2026-") {
		return "", 0, false
	}
	switch sensor = record[1]; sensor + " " + record[3] {
	case "temperature F":
		value = (value - 32) * 5 / 9
	case "pressure kPa":
		value *= 10
	case "temperature C", "pressure hPa", "humidity %":
	default:
		return "", 0, false
	}
	return sensor, math.Round(value*1000) / 1000, true
}

// check compares a summary and the warehouse with the files.
func check(t testing.TB, s Source, got Summary) {
	t.Helper()
	want := expect(t, s.Data)
	require.NotZero(t, want.refused)
	require.Len(t, got.Reports, want.files)
	require.Equal(t, want.loaded, got.Loaded)
	require.Equal(t, want.refused, got.Refused)

	// Each row is in the warehouse once: each file and line.
	_, entries, err := readWarehouse(s.Warehouse)
	require.NoError(t, err)
	require.Len(t, entries, want.files)
	seen := make(map[string]bool)
	sums := make(map[string]float64)
	for _, e := range entries {
		file, _, _ := strings.Cut(e.Key, "@")
		for _, row := range e.Rows {
			id := fmt.Sprintf("%s:%d", file, row.Line)
			require.False(t, seen[id], "%s is loaded twice", id)
			seen[id] = true
			sums[row.Sensor] += row.Value
		}
	}
	require.Len(t, seen, want.loaded)
	require.Len(t, sums, 3)
	for sensor, sum := range want.sums {
		// Each value may be rounded the other way.
		require.InDelta(t, sum, sums[sensor], 0.001*float64(want.loaded), sensor)
	}
	checkFailed(t, got.Failed)
}

// checkFailed compares the failed files with the damage that makeData has done to them.
func checkFailed(t testing.TB, failed []FailedFile) {
	t.Helper()
	require.Len(t, failed, 3)
	for i, want := range []FailedFile{
		{"station-12.csv", categoryFormat, `the header is "when;what;how much", must be "time,sensor,value,unit"`},
		{"station-23.jsonl", categoryQuality, "rows are refused, the first at line 2: value 9999 F: must be -90 to 60 C"},
		{"station-30.csv", categoryUnreadable, "is a directory"},
	} {
		require.Equal(t, want.File, failed[i].File)
		require.Equal(t, want.Category, failed[i].Category)
		require.Contains(t, failed[i].Reason, want.Reason)
	}
}

// The totals equal the totals of the files, and the limit holds, on each engine.
func TestTotals(t *testing.T) {
	t.Parallel()
	flowtest.Engines(t, func(t *flowtest.T) {
		var loads loader
		def, err := ETL(newLoad(&loads))
		require.NoError(t, err)
		source := newSource(t)
		check(t, source, flowtest.Start(t, def, source).MustResult())

		did := loads.counted()
		require.LessOrEqual(t, did.Peak, loadsAtOnce)
		require.Equal(t, 37, did.Files)
		if t.Virtual() { // in real time, each file may come when the ones before have gone
			require.Less(t, did.Calls, did.Files, "no call had several files")
			require.Greater(t, did.Peak, 1)
		}

		// Another run of the same files loads nothing again.
		check(t, source, flowtest.Start(t, def, source).MustResult())
		require.Equal(t, 37, loads.counted().Repeated)
		require.LessOrEqual(t, loads.counted().Peak, loadsAtOnce)
	}, flowtest.Worker(runtime.WorkerConfig{Lease: time.Hour})) // no lease is lost
}

// Workers are lost after they have loaded files and before the engine knows it. A worker is lost at most once for each
// file that is loaded, and an execution may lose its worker five times, so there are five.
func TestLostWorkers(t *testing.T) {
	t.Parallel()
	flowtest.Run(t, func(t *flowtest.T) {
		var loads loader
		load := newLoad(&loads)
		def, err := ETL(load)
		require.NoError(t, err)
		t.Inject(load, flowtest.Attempt(1), flowtest.LoseWorker())
		source := newSource(t)
		for station := 5; station < stations; station++ {
			if station != wrongHeader && station != mostlyBroken && station != notAFile {
				remove(t, source, station)
			}
		}
		check(t, source, flowtest.Start(t, def, source).MustResult())
		did := loads.counted()
		require.Equal(t, did.Files-5, did.Repeated)
		require.NotZero(t, did.Repeated, "no worker was lost after it had loaded a file")
		// The last calls of the lost workers for permits of the limit end some time after the workers.
		t.Advance(time.Minute)
	})
}

// Writers that do not know each other share a warehouse, as the writers of two processes do.
func TestWarehouseOfTwoWriters(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var writers sync.WaitGroup
	var failures [2]error
	for i := range failures {
		w, err := openWarehouse(dir)
		require.NoError(t, err)
		writers.Go(func() {
			for n := range 50 {
				_, err := w.commit([]entry{
					{fmt.Sprint("both-", n), []Row{{Line: n}}}, {fmt.Sprint(i, "-", n), []Row{{Line: n}}},
				})
				failures[i] = errors.Join(failures[i], err)
			}
		})
	}
	writers.Wait()
	require.NoError(t, errors.Join(failures[:]...))
	transactions, entries, err := readWarehouse(dir)
	require.NoError(t, err)
	require.Equal(t, 100, transactions)
	keys := make(map[string]bool)
	for _, e := range entries {
		require.False(t, keys[e.Key], e.Key)
		keys[e.Key] = true
	}
	require.Len(t, keys, 150)
	drafts, err := filepath.Glob(filepath.Join(dir, "draft-*"))
	require.NoError(t, err)
	require.Empty(t, drafts)
}

// The errors of files have a type and a category.
func TestFileError(t *testing.T) {
	t.Parallel()
	source := newSource(t)
	_, err := extract.Call(context.Background(), File{source, "station-12.csv"})
	var of *FileError
	require.ErrorAs(t, err, &of)
	require.Equal(t, "station-12.csv", of.File)
	require.Equal(t, categoryFormat, activitytest.CategoryOf(err))
}

// TestProgram runs the whole program in this process, twice with one folder.
func TestProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	engine := "embedded:" + filepath.Join(dir, "engine")
	args := []string{"-engine", engine, "-dir", filepath.Join(dir, "data"), "-run", "mine"}
	var first, second, stderr strings.Builder
	require.Zero(t, run(t.Context(), args, &first, &stderr), &stderr)
	require.Contains(t, first.String(), "Run mine begins: ")
	want := expect(t, filepath.Join(dir, "data", "measurements"))
	totals := fmt.Sprintf("Total: 40 files, 37 loaded, 3 failed; %d rows loaded, %d refused\n"+
		"Warehouse: %d rows of 37 files", want.loaded, want.refused, want.loaded)
	require.Contains(t, first.String(), totals)

	require.Zero(t, run(t.Context(), args, &second, &stderr), &stderr)
	require.Contains(t, second.String(), "Run mine exists already: ")
	require.Contains(t, second.String(), totals)
	require.Contains(t, second.String(), "This process: 0 files loaded in 0 calls")
	require.Empty(t, stderr.String())
}

// The program reports the fault of its command line.
func TestBadCommandLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		code int
		text string
	}{
		{[]string{"more"}, exitUsage, `arguments ["more"]: there must be none`},
		{[]string{"-run", strings.Repeat("x", 257)}, exitUsage, "-run: has 257 bytes, must have at most 256"},
		{[]string{"-speed", "11"}, exitUsage, "not defined: -speed"},
		{[]string{"-engine", "embedded:x"}, exitUsage, "-dir: must name a folder"},
		{[]string{"-dir", t.TempDir(), "-engine", "gopher://hole"}, exitFailure, `-engine: `},
	} {
		var stdout, stderr strings.Builder
		require.Equal(t, c.code, run(t.Context(), c.args, &stdout, &stderr), c.args)
		require.Contains(t, stderr.String(), c.text, c.args)
		require.Empty(t, stdout.String())
	}
}

// The flows are stored with every run: a change of them makes a run of before unknown to a second start, so it should
// be meant.
func TestFlows(t *testing.T) {
	t.Parallel()
	load := newLoad(new(loader))
	def, err := ETL(load)
	require.NoError(t, err)
	flowtest.Golden(t, def)
	perFile, err := PerFile(load)
	require.NoError(t, err)
	flowtest.Golden(t, perFile)
}

func TestMain(m *testing.M) { enginetest.MainOnServers(m) }
