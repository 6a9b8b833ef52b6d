// Package runcheck finds the runs that another version of a program could not continue: the gate before a deploy.
//
// A run keeps the graph it was started with, but its nodes are run by the present workers. If these have lost an
// activity, have changed a type so that stored values no longer decode, or no longer serve a lane or capability, a run
// waits for ever or fails. Program describes the new version; Check compares a run with it.
//
// Runs come from an engine, by Open, or from a file that Export has written and Read reads, so that a build without
// access to production can check them. The checks change nothing. flowtest.CheckRuns fails a test for each problem.
//
// Import it to check open runs before a new version of a program is deployed.
package runcheck
