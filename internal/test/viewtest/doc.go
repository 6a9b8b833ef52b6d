// Package viewtest tests the reads of a client on every engine: lists, counts, feeds, event logs, logs, values and workers.
package viewtest
