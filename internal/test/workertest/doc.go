// Package workertest tests workers on every engine: which executions they claim, which messages wake them, how they
// stop, which work they find after lost messages, and the calls that a run costs them.
package workertest
