// Package backend performs the calls of [engine.Backend] with the ff_* functions of the FlowFabric contract, version
// 15, and reads of the contract's keys. Package contract passes it to runtime.Open as an [engine.Guest].
//
// # Operation
//
// This project's library performs each of the calls in one step. This package performs them in several steps, one after
// the other. Each step is idempotent, because all ids derive from namespace, flow, run and node, so that any program
// can complete an operation after a crash:
//
//   - SubmitFlow creates the nodes delayed (held), stages and applies the edges, marks the flow as complete and
//     then releases the nodes.
//   - Claim reads the head of a lane, skips the executions that the worker cannot run, and sends a grant and a claim
//     for each other one.
//   - Complete, Fail and expiries end an execution, then resolve the edges to its downstreams (propagate).
//   - State, outcome and end of a run are computed from its nodes at each query: the contract has no record of
//     them.
//
// A program may stop between two calls, and programs without this package take only some of the steps.
// FollowCompletions propagates ends that were published but not propagated within a short time; the tick of keepers
// performs work that is due by time and, once per reconcile interval, the steps that are still missing.
//
// Messages to workers, keepers and clients are hints: all of them also poll. Data that the contract has no field for is
// stored in tags of flows and executions, see package contractnode.
//
// # Constructs without a counterpart
//
// Package contractcheck names the constructs of flows that the contract lacks; SubmitFlow refuses flows with them. The
// page docs/contract/contract-mode.md lists all operations and describes the differences for users.
//
// Events are composed from records, and deadlines apply to each node. Only the worker enforces start-to-close and
// heartbeat timeouts.
//
// # Rooms
//
// The calls are performed by packages below this one, which import each other in one direction: link is the connection
// to the engine; flows works on whole flows; execution takes the steps of executions; submission, signals and keeper
// use these, and runs reads. This package joins them to one backend.
//
// They import package engine (session, backend interface) and submit (stored policies), and none of worker, keeper,
// schedule, admission and runtime, which call the backend through the interfaces of package engine only.
package backend
