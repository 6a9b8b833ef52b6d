// Package scheduletest holds the tests of schedules that need an engine: that each fire starts one run whatever happens to the
// keepers, what overlaps, what is made up, and what an operator may do. Times are moved by changing what is stored, not waited
// for.
package scheduletest
