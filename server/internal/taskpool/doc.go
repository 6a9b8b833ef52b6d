// Package taskpool holds the tasks of workers that call over HTTP. For each such worker it runs a runtime.Worker, whose
// leases only the caller renews: a caller that is gone loses its tasks when their leases end, and so does one that
// calls another server, since a task is held by the server that has claimed it. Of a task that has ended, the pool
// knows for some time how, so that a call can be repeated, and neither its input nor its result.
package taskpool
