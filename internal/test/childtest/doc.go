// Package childtest holds the tests of map and sub-flow nodes: the child runs that they start, how these end, and the
// data left by a process that dies in between.
package childtest
