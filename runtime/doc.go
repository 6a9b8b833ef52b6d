// Package runtime runs flows: it opens an engine, starts and watches runs, and works.
//
//	engine, err := runtime.Open(ctx, os.Getenv("FLOWFABRIC_URL"), runtime.OpenConfig{}) // "" is an engine in this process
//
//	worker, err := runtime.NewWorker(engine, runtime.WorkerConfig{Concurrency: 32})
//	err = worker.Register(scan, count, report)
//	go worker.Run(ctx)
//
//	client, err := runtime.NewClient(engine)
//	run, err := runtime.Start(ctx, client, census, Source{Dir: dir}, runtime.WithID("census-2026"))
//	summary, err := run.Result(ctx)
//
// Any program with a client refers to the run by its names, and asks or tells it what a RunRef can:
//
//	description, err := client.Run("census", "census-2026").Describe(ctx)
//
// A small program or a test starts all of that with OpenLocal. Engines, workers and keepers are configured by structs
// whose zero values are good for most programs; their constructors return all faults of a config at once, as errors
// that match ErrInvalid.
//
// # Who does what
//
// A Client plans the run of a flow.Definition and submits it in one atomic call. A Worker claims executions whose
// dependencies are satisfied, keeps their leases while the functions run, and reports how they ended; the report
// resolves the dependencies of what comes next in the same call. A Keeper does what is due by time: retries, lost
// leases, timeouts, deadlines; workers run one beside them. All three may run in one process or in many.
//
// # What is guaranteed
//
// A run that was started becomes terminal as long as workers and the engine live. No node starts before its upstreams
// succeeded, and none after its run was cancelled. Functions run at least once, and again after a failure or a lost
// worker; of each attempt at most one result is committed, and a committed result never changes. Starting a run again
// under the same id is the same run.
package runtime
