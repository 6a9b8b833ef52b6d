// Package bulkjob runs bulk jobs: one action on all runs that a query selects. Clients start, read and stop a [Job].
// For keepers, a [Runner] takes a job that is due, handles a bounded number of runs after the stored cursor, saves the
// progress after each of them, and releases the job. So any keeper can continue a job of another one.
package bulkjob
