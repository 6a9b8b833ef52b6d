// Command shake runs the tests of packages many times, to find flaky ones:
//
//	go run ./internal/test/shake -n 10 -load 2 ./runtime ./internal/test/storm
//
// Each package is built once, with the race detector unless -race=false, and its whole test binary runs -n times. Every
// run is appended to a file of its own for each package (-dir, .cache/shake by default) with its outcome, its time and
// the tests that failed. An interrupted command resumes: runs of the same binary on the same engines that are in the
// file are not repeated. The output of a failed run is stored beside it.
//
// It exits with 1 when a run failed, now or in what the file holds.
package main
