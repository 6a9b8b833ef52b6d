// Package output sends the output of a function before its result: frames in order and in batches, the lines that it
// logs, its progress, and live values.
package output
