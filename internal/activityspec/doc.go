// Package activityspec defines what an activity requires of the engine and of workers: names, resolved options, retry
// plans, limits and waits. Packages activity, flow and runtime share it; users see it through the options of package
// activity.
package activityspec
