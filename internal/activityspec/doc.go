// Package activityspec defines the requirements of an activity on the engine and on workers: names, resolved options,
// retry plans, limits and waits. Packages activity, flow and runtime share it; users see it through the options of
// package activity.
package activityspec
