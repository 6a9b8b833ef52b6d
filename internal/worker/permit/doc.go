// Package permit acquires and returns the permits of limits for the tasks of a worker run.
//
// [Permits] has four parts. Tasks that were leased before their permits request them through a queue, in which one call
// at a time is in flight for each limit, or use a pool of permits that the worker holds in advance while a limit has
// room. The permits of attempts that have ended are returned with the next request to their limit, or after a moment. A
// cache has the last known state of each limit, which claims send along.
//
// When permits lease further executions, the run starts them: it implements [Starter].
package permit
