// Package held hands the tasks of a worker to a program that settles them by calls, in place of functions.
//
// [Handover] waits for tasks on behalf of the program. [Task] is a task that the program holds: its calls renew the
// lease, report progress and usage, and settle the task. The worker run implements [Run], by which the package leases
// executions and starts the tasks that follow.
package held
