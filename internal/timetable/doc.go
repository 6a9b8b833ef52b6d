// Package timetable computes the times of cron expressions in a time zone, and of intervals.
//
// Times are whole milliseconds. A timetable is a value: the same spec gives the same times in every process.
package timetable
