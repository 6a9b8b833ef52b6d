// Package runsearch finds runs by flow, state, tags and time. [Search] asks all partitions for runs in the order of
// their start or end, a bounded number at a time, merges what they find, and continues behind a cursor. [Latest] serves
// engines in contract mode, which have no lists of runs.
package runsearch
