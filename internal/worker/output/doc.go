// Package output sends what a function puts out before its result: frames in order and in batches, the lines that it
// logs, its progress, and live values.
package output
