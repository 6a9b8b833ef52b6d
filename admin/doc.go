// Package admin operates on FlowFabric data one execution, flow, budget or quota at a time: the operations of a
// FlowFabric server, as Go calls. It works on all data of a deployment, also on those of other FlowFabric tools,
// because it uses nothing but the functions of the contract and reads of its keys; so it works in contract mode, too.
// Namespaces do not bound it.
//
// To start flows, wait for their results, describe, cancel, rerun and find runs, use package runtime: it knows whole
// graphs. This package is for operators' tools, for repair, and for programs that share their data with others.
//
// A call is atomic where its comment says so: a single step of the engine. Others read several records one after the
// other, and may see a change half. Times of calls are those of the server's clock.
//
// # Errors
//
// Refusals of the engine are errors of package enginecore, for errors.Is: enginecore.ErrExecutionNotFound and so on.
// Arguments that make no sense give ErrInvalid before anything is sent. enginecore.ErrUnavailable is a server that is
// away, enginecore.ErrOutcomeUnknown a call whose reply was lost and that may or may not have been carried out: look
// before sending it again.
package admin
