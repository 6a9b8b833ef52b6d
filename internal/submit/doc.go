// Package submit starts runs and follows them to their end: it compiles flows, plans and sends submissions, waits for
// results, reads failures, and cancels, reruns and purges runs. Clients, schedules, and workers with map and sub-flow
// nodes use it.
//
// Its main types:
//
//   - [Submitter] sends plans, waits for the end of runs and purges them. Each client and each schedule runner has one;
//     a map or sub-flow node makes one for its child run.
//   - [CompiledFlow] is the encoded form of a definition, which all its runs share; [CompiledCache] keeps those used
//     last.
//   - [RunPlan] is one run ready to be submitted: ids, partition, nodes, edges, limits and budgets. Its ids are the
//     same in every process, so a start can be repeated.
//   - [CompletionListener] receives the messages that runs are over and passes them to waiting callers.
//   - [StoredPolicy], [StoredLimit], [StoredBudget] and [StoredChild] are the JSON forms in the engine's records, which
//     workers decode.
//   - [RunFailure] is how an unsuccessful run ended.
//
// A start takes this way: CompileFlow encodes the graph once; NewPlan derives the ids and resolves limits, budgets and
// fairness key from the input; Submitter.Submit joins small runs of the same flow into one call: ffx_start in the usual
// case, and ffx_submit, partition by partition, in other cases, after it has stored the graph where the partition does
// not have it (ffx_put_graph). A backend without stored graphs creates the run node by node. AwaitResult then waits for
// the completion message, and queries the engine whenever that message may have been missed.
//
// The package uses engine (the connection), flowgraph (stored flows) and valueschema (schemas of the
// answers to waits). Admission, schedule, contract, worker and keeper import it; it calls none of them.
package submit
