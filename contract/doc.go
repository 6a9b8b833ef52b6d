// Package contract provides contract mode: a flow definition is compiled into the calls ff_create_flow,
// ff_create_execution, ff_add_execution_to_flow and ff_stage_dependency_edge of the FlowFabric specification, contract
// version 15, and all other work of clients, workers and keepers into further ff_* functions, of the library that is
// already on the server. Without this package, the default backend submits the same graph as one atomic call of this
// project's own library.
//
//	engine, err := runtime.Open(ctx, "valkey://localhost:6379?contract=15", runtime.OpenConfig{
//		Backend: contract.Backend(contract.Config{}),
//	})
//
// Open neither loads nor replaces a library in contract mode, so flows run on a stock FlowFabric server next to its own
// programs. It fails with enginecore.ErrNoLibrary or ErrIncompatibleLibrary when the library is missing or has another
// version. The engine of this process, embedded:?contract=15, uses this project's library without its composite
// functions. runtime.Plan prints the calls of a flow before anything runs.
//
// Each step of a run is a separate call in contract mode. Runs are therefore slower, and other programs can observe a
// step that is half done; workers and keepers repeat every step until it is complete. Start refuses a flow with a
// construct that the contract lacks, before it writes anything, with runtime.ErrNotInContract. The page
// docs/contract/contract-mode.md lists the constructs and the differences.
//
// Import it to work on a server whose library belongs to another FlowFabric program.
package contract
