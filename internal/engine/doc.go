// Package engine is the connection to a FlowFabric engine, with everything that clients, workers and keepers of one
// program share. Packages that serve runs build on it, except dispatch.
//
// Its main types:
//
//   - [Session] is an open connection: the calls of the library (Core), the backend, the clients of the server, and
//     configuration such as namespace, retention and logger. [Session.Connect] opens it, [Session.Close] closes it.
//   - [Backend] is the interface of the calls that every engine answers. The session's own backend sends each as one
//     call of the composite library; package contractmode has one that uses functions of the contract only. What only
//     some backends can do is an interface of its own, such as [RunControl] or [WaitStore], which [Capability] returns.
//   - The hub of a session delivers published messages to any number of listeners over one connection; [Tail] waits for
//     entries of streams on connections of the session.
//   - [Batcher] joins concurrent requests with a common key into one call; [SendAll] pipelines independent calls;
//     [RetryUntilKnown] repeats a call whose outcome is unknown.
//   - [Telemetry] and [LogEvent] name all metrics, spans and log records; errors.go has the errors that package runtime
//     exports.
//
// A call takes this way: a package above builds a request of package enginerpc and passes it to the backend or to Core,
// which encodes it. The client of the session sends it without blocking on a connection that is being made, so that the
// call ends with its context. The reply returns decoded, with an error of package enginecore.
//
// The package imports enginecore, activity, internal/enginerpc and other internal packages with stored forms, and the
// client library. It imports no package of runtime except the pure values of runtime/runevent. It neither compiles
// flows nor keeps leases nor schedules maintenance.
package engine
