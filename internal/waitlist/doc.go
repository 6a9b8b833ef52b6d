// Package waitlist reads the waits of runs: the waits of one run with its child runs, the open waits of all runs, the
// wait that a token belongs to, and the signals that a wait has received.
package waitlist
