// Package journal records the steps and waits of an execution: [Journal] has the recorded results, and [Recorder]
// records the results of one call of a function, in the engine and in the journal.
package journal
