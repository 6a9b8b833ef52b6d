// Package runcontrol changes runs that exist: it cancels runs and nodes, pauses and resumes runs, changes priorities,
// and moves starts and timers. Each function makes the calls of one operation of a client, repeats them while the
// engine has more to do, and returns the errors of package engine. Clients and bulk jobs use it; the operations that
// also need a Submitter, such as reruns and purges, are in package submit.
package runcontrol
