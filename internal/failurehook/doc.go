// Package failurehook calls a function of the program for each run that fails: WorkerConfig.OnRunFailed. The workers of
// one name share a [Hook], which one of them holds at a time. The holder follows the feed of all runs and stores its
// cursor after each failure that the function has handled, so that another worker continues there. Where the feed has
// dropped events, the holder searches for the runs that have ended since.
package failurehook
