// Package activitytest replaces the engine in unit tests of activities.
//
// Import it to call the function of an activity in a test without an engine.
package activitytest
