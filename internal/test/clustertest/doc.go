// Package clustertest tests what only a cluster does to flows: their runs, maps, sub-flows, schedules, budgets and
// limits lie in different slots, slots move from server to server, and replicas take over from primaries, all of it
// under load.
package clustertest
