// Package bulkjob carries out bulk jobs: one action on all runs that a query selects. A [Runner] takes a job that is
// due, handles a bounded number of runs behind the stored cursor, saves the progress after each of them, and gives the
// job back. So any keeper goes on where another one has stopped.
package bulkjob
