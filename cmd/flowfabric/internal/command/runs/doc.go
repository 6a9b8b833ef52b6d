// Package runs has the commands that start, show, follow and change runs.
package runs
