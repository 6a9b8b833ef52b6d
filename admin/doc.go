// Package admin reads and changes single executions, flows, budgets and quotas of a deployment: the operations of a
// FlowFabric server, as Go calls. It works on all data of a deployment, in all namespaces, including data of other
// FlowFabric tools, because it uses only functions of the contract and reads of its keys. It therefore also works in
// contract mode.
//
// To start flows, wait for their results, and describe, cancel, rerun or find runs, use package runtime, which handles
// whole graphs. This package is for operators' tools, for repair, and for programs that share data with other tools.
//
// A call is atomic only if its comment states it. Other calls read several records one after another, and may return a
// change in part. Times are by the server's clock.
//
// # Errors
//
// Refusals by the engine are errors of package enginecore, for errors.Is, such as enginecore.ErrExecutionNotFound.
// Invalid arguments return ErrInvalid before anything is sent, such as a reason of more than 2,048 bytes or with
// control characters. enginecore.ErrUnavailable means that the server is unreachable, enginecore.ErrOutcomeUnknown that
// the reply of a call was lost, so that it may or may not have been executed: read the record before you repeat the
// call.
//
// Import it to write tools for operators, or a server for other FlowFabric programs.
package admin
