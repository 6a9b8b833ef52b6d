// Package aof keeps the data of the engine in a directory: an append-only file of the commands that ran, which a
// snapshot replaces when it has grown. It knows nothing of commands and values: a Database gives it records and
// snapshots, and takes both back when the directory is opened.
//
// # Files
//
// A manifest names the generation of the current log. A snapshot of a generation has the data from before the log of
// that generation. A file gets its name when it is on disk; before, its name ends in .tmp.
//
// # When the disk fails
//
// After a failed write or sync, Failure returns the reason until the log is restored, which is tried at least every 5
// s. A log that lacks changes that memory has is read again, without the record that failed. A file whose sync has
// failed is no longer written: a snapshot of the data takes its place.
package aof
