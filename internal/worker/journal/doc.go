// Package journal keeps the steps and waits of an execution: [Journal] has their recorded results, and [Recorder]
// records those of one call of a function, in the engine and in the journal.
package journal
