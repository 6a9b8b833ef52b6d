// Package workload puts runs in every state into an engine: waiting, suspended at waitpoints and in functions, delayed
// by a retry or by the time of their start, paused, in maps and sub-flows, under limits and budgets, of schedules,
// finished and failed. Later, mostly in another engine with the same data, it continues them and checks that each has
// ended with its result. It also has small flows that tests of connections share.
package workload
