// Package enginetest gives tests of flows an engine of each kind with a keyspace of its own, workers and keepers that
// end with the test, and the check that everything is in order afterwards.
package enginetest
