// Package testserver starts real Redis and Valkey servers for tests.
//
// A test takes a server of its own from [Start], which it may kill and restart, or the one its
// whole process has in common from [Shared], on which it uses its own key prefix. No server
// outlives the test process, not even one that is killed.
//
// A missing server program fails the test. Only a kind that FLOWFABRIC_TEST_ENGINES leaves out is
// skipped, because whoever set the variable asked for that.
package testserver
