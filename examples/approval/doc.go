// Command approval deploys a small web site after two people have approved: it builds and tests a Go module, waits for
// the approvals, switches the site to the new release, verifies it, and rolls back on failure.
//
// flow.go declares the work as a graph; the other files hold the ordinary functions that its nodes run, and the
// commands. An interrupted deployment, even by kill -9 and even while it waits, continues when the command is repeated.
package main
