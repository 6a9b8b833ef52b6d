package main

import (
	"errors"
	"os"
	"runtime"
	"runtime/metrics"
	"runtime/pprof"
	"time"
)

// own is the use of resources by this process since its start.
type own struct {
	cpu     time.Duration
	objects uint64 // allocated on the heap
	bytes   uint64
	// switches is how often goroutines have begun to run, about: the runtime counts every eighth time.
	switches uint64
}

// latencies is the metric of the runtime that has a value for every eighth time that a goroutine begins to run.
const (
	latencies = "/sched/latencies:seconds"
	counted   = 8
)

// ownUse returns the use of resources by this process until now. Concurrent work of other goroutines may or may not be
// counted.
func ownUse() own {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	sample := []metrics.Sample{{Name: latencies}}
	metrics.Read(sample)
	switches := uint64(0)
	for _, n := range sample[0].Value.Float64Histogram().Counts {
		switches += n * counted
	}
	return own{cpu: processCPU(), objects: m.Mallocs, bytes: m.TotalAlloc, switches: switches}
}

// perNode returns the resources used since before, per executed node.
func (o own) perNode(before own, nodes float64) []figure {
	return []figure{
		{"own CPU per node", "µs", float64((o.cpu - before.cpu).Microseconds()) / nodes},
		{"own allocations per node", "", float64(o.objects-before.objects) / nodes},
		{"own memory per node", "bytes", float64(o.bytes-before.bytes) / nodes},
		{"own switches per node", "", float64(o.switches-before.switches) / nodes},
	}
}

// startProfiles starts the profiles requested by flags. stop writes the files.
func startProfiles(s settings) (stop func() error, err error) {
	stopCPU := func() error { return nil }
	if s.cpuProfile != "" {
		if stopCPU, err = startCPUProfile(s.cpuProfile); err != nil {
			return nil, err
		}
	}
	return func() error {
		err := stopCPU()
		if s.memProfile != "" {
			err = errors.Join(err, writeMemProfile(s.memProfile))
		}
		return err
	}, nil
}

func startCPUProfile(name string) (stop func() error, err error) {
	file, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return file.Close()
	}, nil
}

// writeMemProfile writes the allocations of this process since its start, including live memory.
func writeMemProfile(name string) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	runtime.GC()
	return errors.Join(pprof.Lookup("allocs").WriteTo(file, 0), file.Close())
}
