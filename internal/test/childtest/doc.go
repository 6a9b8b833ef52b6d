// Package childtest holds the tests of map and sub-flow nodes: the child runs that they start, how these end, and what
// is left when a process dies in between.
package childtest
