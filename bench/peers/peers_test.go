package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver/download"
)

// Each system does all work that it is measured with, whole and with the right results, in a separate process.
func TestEachSystemDoesTheWork(t *testing.T) {
	t.Parallel()
	require.NoError(t, download.Servers())
	s := settings{works: workNames(), slots: 4, time: time.Millisecond}
	for _, p := range peers() {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			own := s
			own.measure = p.name
			switch {
			case isOf(p.name, "river"):
				if _, ok := testserver.PostgreSQL(); !ok {
					t.Skip("there is no PostgreSQL, which `make peers` fetches")
				}
			case isOf(p.name, "temporal"):
				own.temporal = temporalServer(t)
			}
			r, err := measureSystem(t.Context(), own)
			require.NoError(t, err)
			require.NotEmpty(t, r.Versions)
			for _, w := range works {
				m, ok := r.Works[w.name]
				require.Equal(t, !p.lacksWork(w.name), ok, "%s was measured", w.name)
				if ok {
					require.Positive(t, m.Runs, w.name)
					require.Positive(t, w.value(m), w.name)
				}
			}
		})
	}
}

// temporalServer is the program of the development server, which takes minutes to compile.
func temporalServer(t *testing.T) string {
	t.Helper()
	if path := os.Getenv("FLOWFABRIC_TEMPORAL_SERVER"); path != "" {
		return path
	}
	t.Skip("FLOWFABRIC_TEMPORAL_SERVER names no program of ./temporal, which takes minutes to compile")
	return ""
}

func TestJournal(t *testing.T) {
	t.Parallel()
	j := newJournal()
	text := payload(7, 0, payloadSize)
	require.Len(t, text, payloadSize)
	for range chainSteps {
		var err error
		text, err = j.Work(text)
		require.NoError(t, err)
	}
	require.Equal(t, payload(7, chainSteps, payloadSize), text)
	_, err := j.Work(text)
	require.EqualError(t, err, "run 7 has no function 10")
	repeated, err := j.Check(7, 1, chainSteps)
	require.NoError(t, err)
	require.Zero(t, repeated)

	_, err = j.Work(payload(7, 3, payloadSize))
	require.NoError(t, err)
	repeated, err = j.Check(7, 1, chainSteps)
	require.NoError(t, err)
	require.Equal(t, 1, repeated)

	_, err = j.Work(payload(8, 0, payloadSize))
	require.NoError(t, err)
	_, err = j.Check(7, 2, chainSteps)
	require.EqualError(t, err, "9 of 20 functions were never executed")
}

func TestTables(t *testing.T) {
	t.Parallel()
	of := func(system string, perSecond, p50 float64, versions ...string) result {
		return result{System: system, Versions: versions, Works: map[string]measurement{
			"single": {Runs: int(perSecond), Seconds: 1}, "single-idle": {P50: p50},
		}}
	}
	withIdle := of("asynq", 4000, 2, "asynq 1", "Valkey 8")
	withIdle.Works["single"] = measurement{Runs: 4000, Seconds: 1, Repeated: 2}
	withIdle.Idle = &idle{Program: 1.5, Server: 0.25}
	pairs := []pair{
		{of(flowFabric, 9000, 0.5, "FlowFabric", "Valkey 8"), withIdle},
		{of(flowFabric, 9300, 0.5, "FlowFabric", "Valkey 8"), of("asynq", 3100, 1, "asynq 1", "Valkey 8")},
		{of(flowFabric, 8000, 0.5, "FlowFabric", "Valkey 8"), of("asynq", 16000, 1, "asynq 1", "Valkey 8")},
	}
	var out bytes.Buffer
	s := settings{only: []string{"asynq"}, works: []string{"single", "single-idle"}, rounds: 3, time: time.Second, slots: 16,
		idleTime: time.Second}
	require.NoError(t, printTables(&out, s, pairs))
	require.Contains(t, out.String(), "| single functions, 100 open | 9,000/s | 4,000/s |\n")
	require.Contains(t, out.String(), "| single functions, 100 open | FlowFabric | 8,000/s | 9,000/s | 9,300/s | – | 0 |\n"+
		"|  | asynq | 3,100/s | 4,000/s | 16,000/s | 2.25× (0.50 to 3.00) | 2 |\n")
	require.Contains(t, out.String(), "| one function when idle, p50 | 0.50 ms | 1.00 ms |\n")
	require.Contains(t, out.String(), "|  | asynq | 1.00 ms | 1.00 ms | 2.00 ms | 2.00× (2.00 to 4.00) | 0 |\n")
	require.Contains(t, out.String(), "| asynq | 1.50 | 0.25 |\n")
	require.Contains(t, out.String(), "Versions: FlowFabric, Valkey 8, asynq 1, Go ")
}

func TestFlags(t *testing.T) {
	t.Parallel()
	s, err := parseFlags([]string{"-only", "asynq,river", "-work", "chain", "-rounds", "5"})
	require.NoError(t, err)
	require.Equal(t, []string{"asynq", "river"}, s.only)
	require.Equal(t, []string{"chain"}, s.works)
	require.Equal(t, 5, s.rounds)
	_, err = parseFlags([]string{"-only", "celery"})
	require.ErrorContains(t, err, `-only "celery": must be of asynq, `)
	_, err = parseFlags([]string{"-work", "none"})
	require.ErrorContains(t, err, `-work "none": must be of single, `)
	_, err = parseFlags([]string{"-rounds", "0"})
	require.ErrorContains(t, err, "-rounds 0")
}

// A server ends by its signal, and one that cannot be started is an error.
func TestProcessEnds(t *testing.T) {
	t.Parallel()
	path, err := exec.LookPath("cat")
	if err != nil {
		t.Skip("there is no program cat")
	}
	cmd := exec.Command(path)
	stdin, err := cmd.StdinPipe()
	require.NoError(t, err)
	defer stdin.Close()
	p, err := startProcess(cmd, os.Interrupt)
	require.NoError(t, err)
	require.NoError(t, p.stop(time.Minute))
	_, err = startProcess(exec.Command(filepath.Join(t.TempDir(), "none")), os.Interrupt)
	require.ErrorContains(t, err, "start ")
}
