// Package limits changes the limits of activities and reads their states: how often and how many at once nodes may
// start, under one name and key for all runs of a namespace. Clients use it; package admission holds executions to the
// limits.
package limits
