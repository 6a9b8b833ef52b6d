// Command approval deploys a small web site after two people have agreed: it builds and tests a Go module, waits for the
// people, switches the site to the new release, looks whether it is really there, and goes back when something is wrong.
//
// flow.go declares the work as a graph; the other files hold the ordinary functions that its nodes run, and the commands. A
// deployment that was interrupted, even by kill -9 and even while it waits, goes on when the command is given again.
package main
