// Package load has the commands for flows, schedules and load: lanes, activities, limits, budgets and workers.
package load
