// Command testrun runs the tests of all modules of this repository: "make unit", "make test" and "make test-all" are
// its three plans.
//
// A plan has lanes, which run at the same time: tests wait a lot, and while the last package of one lane keeps one
// processor busy, the other one has work. A lane is a list of steps, each of them one call of go test. The command
// prints for each step its subject, its result and its processor time.
package main
