// Package engine is the session of a program with a FlowFabric engine, which clients, workers and keepers share.
// Packages that serve runs build on it, except dispatch.
//
// Its main types:
//
//   - [Session] is an open connection: the calls of the library (Core), the backend, the clients of the server, and
//     configuration such as namespace, retention and logger. [Session.Connect] opens it, [Session.Close] closes it.
//   - [Backend] is the interface of the calls that every engine answers. The session's own backend sends each as one
//     call of the composite library; package contract has a backend that uses only functions of the contract.
//     Calls that only some backends support are in separate interfaces, such as [RunControl] or [WaitStore], which
//     [Capability] returns.
//   - errors.go has the errors that package runtime exports.
//
// The packages below this one do not depend on the session: transport has the connections, feeds reads feeds on them,
// batching joins calls, retry repeats them, and observe names metrics, spans and log records.
//
// A call takes this way: a package above builds a request of package enginerpc and passes it to the backend or to Core,
// which encodes it. The client of the session sends it without blocking on a connection that is being made, so that the
// call ends with its context. The reply returns decoded, with an error of package enginecore.
//
// The package neither compiles flows nor keeps leases nor schedules maintenance.
package engine
