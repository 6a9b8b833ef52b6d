// Package console is the web console of FlowFabric: pages that show runs and why they wait, answer waits that need a
// person, and operate flows, schedules, lanes, limits, budgets and workers. The pages call the HTTP API of package
// server, with the rights of the user; this package serves their files.
//
// Package server serves the console at its root. A program that serves the API elsewhere mounts Handler itself.
package console
