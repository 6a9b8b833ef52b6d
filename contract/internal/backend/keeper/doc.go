// Package keeper performs the work that is due by time, takes the steps that other programs left undone, and follows
// the ends that they published.
package keeper
