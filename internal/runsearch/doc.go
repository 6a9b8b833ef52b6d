// Package runsearch finds runs by flow, state, tags and time. [Search] queries all partitions for runs in the order of
// their start or end, a bounded number at a time, merges the results, and continues after a cursor. [Latest] serves
// engines in contract mode, which have no lists of runs.
package runsearch
