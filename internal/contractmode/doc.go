// Package contractmode is the backend for servers whose FlowFabric library must stay: it carries out the calls of
// engine.Backend with the ff_* functions of the FlowFabric contract, version 15, and reads of the contract's keys.
//
// # Operation
//
// What takes one composite call with this project's library takes several calls here, one after the other. Each
// operation is idempotent, because all ids derive from namespace, flow, run and node, so that any program can
// complete it after a crash:
//
//   - SubmitFlow creates the nodes delayed (held), stages and applies the edges, marks the flow as complete and
//     then releases the nodes.
//   - Claim reads the head of a lane, skips what the worker cannot run, and sends a grant and a claim for each
//     other one.
//   - Complete, Fail and expiries end an execution, then resolve the edges to its downstreams (propagate).
//   - State, outcome and end of a run are computed from its nodes at each query: the contract has no record of
//     them.
//
// A program may stop between two calls, and programs without this package take only some of the steps.
// FollowCompletions propagates ends that were published but not propagated within a short time; the tick of keepers
// ([ContractTasks]) carries out what is due and, at [ContractConfig].Reconcile, the steps that are still missing.
//
// Messages to workers, keepers and clients are hints: all of them also poll at [ContractConfig].Poll. What the
// contract has no field for is stored in tags of flows and executions (see tagRunID).
//
// # Types
//
// [NewContract] returns the backend; [ContractConfig] sets its intervals. The backend has these capabilities of
// engine: OverdueIndexes, LaneDirectory, WorkerDirectory, CompletionFollower, StepwiseSubmission, WaitStore,
// WaitResults and GrantedClaims.
//
// # What the backend lacks
//
// [Features] is the table of what it does and refuses; the page docs/operations/contract-mode.md has the same. Callers
// of a capability that it lacks get engine.ErrNotInContract before anything is sent, and SubmitFlow refuses flows with
// the same error.
//
// Events are composed from records, and deadlines apply to each node. Only the worker enforces start-to-close and
// heartbeat timeouts. The page docs/operations/contract-mode.md describes the differences for users.
//
// # Imports
//
// The package imports engine (session, backend interface), submit (stored policies), activity (failure categories)
// and runevent (event kinds). It imports none of worker, keeper, schedule, admission and runtime; they use it
// through engine.Backend and the capabilities only, except runtime, which opens it.
package contractmode
