// Package runcheck finds the runs that another version of a program could not carry on: the gate before a deploy.
//
// A run keeps the graph it was started with, but its nodes are run by whatever workers there are. If these have lost an
// activity, have changed a type so that stored values do not decode any more, or do not serve a lane or capability any
// more, a run stands still or fails. Program says what the new version has; Check compares a run with it.
//
// Runs come from an engine, by Open, or from a file that Export has written and Read reads, so that a build without
// access to production can check them. The checks change nothing. flowtest.CheckRuns fails a test for what they find.
package runcheck
