package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/flowfabric/flowfabric-go/internal/engine"
	"github.com/flowfabric/flowfabric-go/internal/test/testserver"
	"github.com/flowfabric/flowfabric-go/runtime"
)

// stats are totals of a server since its start.
type stats struct {
	calls    int64         // of library functions
	micros   int64         // spent in them
	commands int64         // of all kinds, those that functions run included
	pings    int64         // among them, by which clients probe the server
	cpu      time.Duration // of the server process
	memory   int64         // used_memory (bytes)
	output   int64         // sent to clients (bytes)
}

// serverStats reads INFO of all servers. An engine in this process has none.
func serverStats(ctx context.Context, e *runtime.Engine) (stats, error) {
	if e.Embedded() != nil {
		return stats{}, nil
	}
	var s stats
	for _, client := range engine.ConnOf(e.Internal()).Client().Nodes() {
		text, err := client.Do(ctx,
			client.B().Info().Section("commandstats", "cpu", "stats", "memory").Build()).ToString()
		if err != nil {
			return stats{}, fmt.Errorf("INFO: %w", err)
		}
		for line := range strings.Lines(text) {
			name, value, found := strings.Cut(strings.TrimSpace(line), ":")
			if found {
				s.read(name, value)
			}
		}
	}
	return s, nil
}

// read adds a line of INFO.
func (s *stats) read(name, value string) {
	whole := func() int64 { n, _ := strconv.ParseInt(value, 10, 64); return n }
	switch {
	case strings.HasPrefix(name, "cmdstat_fcall"):
		calls, micros := callsOf(value)
		s.calls += calls
		s.micros += micros
	case name == "cmdstat_ping":
		pings, _ := callsOf(value)
		s.pings += pings
	case name == "total_commands_processed":
		s.commands += whole()
	case name == "used_memory":
		s.memory += whole()
	case name == "total_net_output_bytes":
		s.output += whole()
	case name == "used_cpu_user", name == "used_cpu_sys":
		seconds, _ := strconv.ParseFloat(value, 64)
		s.cpu += time.Duration(seconds * float64(time.Second))
	}
}

// callsOf reads the statistics of one command.
func callsOf(value string) (calls, micros int64) {
	for field := range strings.SplitSeq(value, ",") {
		key, number, _ := strings.Cut(field, "=")
		n, _ := strconv.ParseInt(number, 10, 64)
		switch key {
		case "calls":
			calls = n
		case "usec":
			micros = n
		}
	}
	return calls, micros
}

func (s stats) since(before stats) stats {
	return stats{
		pings: s.pings - before.pings,
		calls: s.calls - before.calls, micros: s.micros - before.micros, commands: s.commands - before.commands,
		cpu: s.cpu - before.cpu, memory: s.memory - before.memory, output: s.output - before.output,
	}
}

func (s stats) plus(more stats) stats {
	return stats{
		pings: s.pings + more.pings,
		calls: s.calls + more.calls, micros: s.micros + more.micros, commands: s.commands + more.commands,
		cpu: s.cpu + more.cpu, memory: s.memory + more.memory, output: s.output + more.output,
	}
}

// slowest runs something and gives the longest call that the server worked on during that time, by its slow log, whose
// settings it puts back.
func slowest(ctx context.Context, e *runtime.Engine, do func() error) (time.Duration, error) {
	client := engine.ConnOf(e.Internal()).Client()
	command := func(words ...string) rueidis.RedisResult {
		return client.Do(ctx, client.B().Arbitrary(words...).Build())
	}
	const setting = "slowlog-log-slower-than"
	before, err := command("CONFIG", "GET", setting).AsStrMap()
	if err != nil {
		return 0, fmt.Errorf("CONFIG GET %s: %w", setting, err)
	}
	if err := command("CONFIG", "SET", setting, "500").Error(); err != nil {
		return 0, fmt.Errorf("CONFIG SET %s: %w", setting, err)
	}
	defer command("CONFIG", "SET", setting, before[setting])
	length, err := command("CONFIG", "GET", "slowlog-max-len").AsStrMap()
	if err != nil {
		return 0, fmt.Errorf("CONFIG GET slowlog-max-len: %w", err)
	}
	defer command("CONFIG", "SET", "slowlog-max-len", length["slowlog-max-len"])
	if err := command("CONFIG", "SET", "slowlog-max-len", "100000").Error(); err != nil {
		return 0, fmt.Errorf("CONFIG SET slowlog-max-len: %w", err)
	}
	if err := command("SLOWLOG", "RESET").Error(); err != nil {
		return 0, fmt.Errorf("SLOWLOG RESET: %w", err)
	}
	if err := do(); err != nil {
		return 0, err
	}
	entries, err := command("SLOWLOG", "GET", "-1").ToArray()
	if err != nil {
		return 0, fmt.Errorf("SLOWLOG GET: %w", err)
	}
	var most int64
	for _, entry := range entries {
		fields, err := entry.ToArray()
		if err != nil || len(fields) < 4 {
			return 0, fmt.Errorf("SLOWLOG GET: unexpected entry: %w", err)
		}
		words, err := fields[3].AsStrSlice()
		if err != nil {
			return 0, fmt.Errorf("SLOWLOG GET: %w", err)
		}
		// Commands that inspect the server do not belong to the engine.
		if len(words) > 0 && strings.HasPrefix(strings.ToLower(words[0]), "fcall") {
			took, _ := fields[2].AsInt64()
			most = max(most, took)
		}
	}
	return time.Duration(most) * time.Microsecond, nil
}

// startServer resolves the value of -engine: "redis" and "valkey" start a server for this run, and "cluster" several,
// which close ends.
func startServer(engine, aof string) (url string, stop func() error, err error) {
	if engine == "cluster" && aof == "no" {
		return startCluster()
	}
	kind := testserver.Kind(engine)
	if kind != testserver.Redis && kind != testserver.Valkey {
		if aof != "no" {
			return "", nil, fmt.Errorf("-aof %s: only for -engine redis or valkey, which start a server", aof)
		}
		return engine, func() error { return nil }, nil
	}
	o := testserver.Options{Kind: kind}
	if aof != "no" {
		o.Args = []string{"appendonly yes", "appendfsync " + aof}
	}
	server, err := testserver.Run(o)
	if err != nil {
		return "", nil, err
	}
	return server.URL(), server.Close, nil
}
