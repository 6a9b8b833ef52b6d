// Package runtime runs flows on an engine. It provides clients, which start and observe runs; workers, which execute
// activities; and keepers, which perform work that is due by time. A client submits a flow.Definition as one atomic
// call. Package contract is the other backend: it compiles the same definition into the calls ff_create_flow,
// ff_create_execution, ff_add_execution_to_flow and ff_stage_dependency_edge of the FlowFabric specification.
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
// Any program with a client can refer to that run by the names of its flow and its id, and use the methods of RunRef:
//
//	description, err := client.Run("census", "census-2026").Describe(ctx)
//
// OpenLocal opens an engine and starts a worker and a client in one call, for small programs and tests. Engines,
// workers and keepers are configured by structs whose zero values suit most programs. Their constructors validate the
// whole config and return all faults at once, in an error that matches ErrInvalid.
//
// # Components
//
// A Client plans the run of a flow.Definition and submits it in one atomic call. A Worker claims executions whose
// dependencies are satisfied, renews their leases while the functions run, and reports how they ended; the engine
// resolves the dependencies of downstream nodes in the same call. A Keeper performs work that is due by time: retries,
// recovery of lost leases, timeouts and deadlines. Worker processes run one by default. All three may run in one
// process or in many.
//
// # Guarantees
//
// Every run that was started ends, as long as workers and the engine are available. No node starts before its upstreams
// have succeeded, and none starts after its run was cancelled. Functions run at least once: a function runs again after
// a failure or when its worker is lost. At most one result of each attempt is committed, and a committed result never
// changes. Starting a run again with the same id, flow and input returns the same run.
package runtime
