// Package worker claims executions from the engine, runs their activities, and reports how they end.
//
// # Types
//
//   - Worker is the configuration, the registered activities and the counters of a worker. Worker.Run works once.
//   - Run is that run: the dispatch loop, the goroutines that listen and sweep, and everything that tasks share.
//   - Task is one leased execution, from the reply that leased it to the report of its end. It embeds an attempt, which
//     has the lease and settles and reports the end; its parts (progressReports, journal, budgetUse, overstay, child)
//     know the attempt alone.
//   - services is what tasks, leases and permits use of the run. They do not know the run itself.
//   - leaseManager renews the leases of all tasks and ends the contexts of those whose lease is lost.
//   - completer reports ends of executions; completionBatcher joins several results into one call.
//   - permitPools, permitQueue, permitReturns and limitCache acquire and return permits of limits.
//     When permits lease further executions, they start them through admittedStarter, which the run implements.
//   - budgetBatcher, emitter and stepRecorder serve what functions call through package activity: budgets, frames, and
//     steps and waits.
//   - child is an attempt of a map or sub-flow node, which has a child run instead of a function.
//
// # The route of an execution
//
//  1. A wake-up (handleWake), a sweep or the reply to an earlier call adds a shard, a lane in one partition, to the
//     dispatch queue.
//  2. Run.dispatch takes the shard with free slots reserved for it, and starts a goroutine that calls
//     Run.claim. With a Granter, claimGranted requests a grant for each execution instead.
//  3. Each leased execution becomes a Task. Candidates of the reply, which are not leased yet, pass their limits in
//     package admission first. Run.launch makes the tasks, and Run.work runs those of one slot one after the
//     other.
//  4. RunTask adds the task to the lease manager, waits for permits if the execution was leased before them
//     (permitQueue.await), and calls runAttempt: it composes the input, reads the journal, makes the start count now in
//     the limits of rates (permitQueue.begin), sets the time limits and invokes the function.
//  5. outcomeOf settles the task and chooses the report. Only one goroutine can settle a task: the one that runs it,
//     the heartbeat watch, or the lease manager when the engine has ended the execution.
//  6. The completer sends the report and repeats it while the engine is unavailable and the lease lasts. The reply can
//     lease the next execution of the same shard for the slot (handoff), which continues at step 4.
//  7. When nothing follows, the slot is freed and the permits are returned, which can lease further executions.
//
// A report carries lease id, lease epoch and attempt id, which the engine checks, so that a worker that has lost a
// lease cannot change the execution. After a call without a reply, the worker cannot know what it leased; it compares
// its leases with the engine's at the next renewal (markUncertain) and releases those that it does not know.
//
// # Stopping
//
// When the context of Run ends, the queue closes, peers are notified, and running functions have the grace time. Then
// their contexts end with engine.ErrStopping, and the executions of functions that do not return are released.
// Leases are renewed until the last report.
//
// # Imports
//
// The package uses engine (the connection), dispatch (queue, peers, wake ring), submit (plans and child runs) and
// admission (limits, grants). It does not import keeper, schedule, contractmode or package runtime: a worker joins the
// shared keeper by the function Worker.JoinKeeper, and contract mode is a backend behind engine.Backend.
package worker
