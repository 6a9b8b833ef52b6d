// Package activitytest replaces the engine in unit tests of activities.
package activitytest
