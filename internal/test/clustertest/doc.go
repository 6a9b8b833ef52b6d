// Package clustertest tests the parts of flows that differ in a cluster: runs, maps, sub-flows, schedules, budgets and
// limits in different slots, slots that move from server to server, and replicas that take over from primaries, all of
// it under load.
package clustertest
