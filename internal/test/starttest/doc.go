// Package starttest tests starts of runs on every engine: keys, arrival, start times, many at once, and wrong arguments.
package starttest
