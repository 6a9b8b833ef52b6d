// Package activitytest stands in for the engine in unit tests of activities.
package activitytest
