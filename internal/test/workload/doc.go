// Package workload puts runs in every state into an engine, and later, mostly in another engine that has the same data,
// lets them go on and checks that each has come to its end with its result: waiting, suspended at waitpoints and in
// functions, delayed by a retry or by the time of their start, paused, in maps and sub-flows, under limits and budgets,
// of schedules, finished and failed. It also has small flows that tests of connections share.
package workload
