-- The stores of executions. An execution that was created by itself has records: a hash and its own keys. A node of a run that
-- was submitted as a whole has a row in the string of its run, and its edges are in the graph of the run. A rule that concerns
-- both gets the store of an execution, and calls the functions that are declared here:
--
--   local s, at = store.of(core_key)
--   local text = s.result(at, c, execution_id)
--
-- Both stores have all of these functions: store_record.lua has those for records, composite/rows/store_row.lua those for rows.
-- `at` is the place in the store: for records the key of the core, for rows the row. record.lua reads fields of flows by the same
-- functions: see flow_store.lua.

-- @store   store_record store_row
--
-- Fields of an execution. Records are all hashes, not only those for executions.
-- @call    read(at, fields, telling)       Table of the named fields (absent fields are nil, empty ones ""), or nil when the
--          record does not exist. `telling`: a hash with none of these fields does not count as a record.
-- @call    values(at, ...)                 Values of the named fields in order, false for those that are absent.
-- @call    value(at, field)                One field, false when it is absent.
-- @call    all(at)                         All fields of a hash, as HGETALL returns them; none of a row.
-- @call    exists(at)                      1 or 0.
-- @call    set(at, ...)                    Sets fields: names and values in turn.
-- @call    clear(at, ...)                  Unsets fields.
-- @call    add(at, field, by)              Adds to a field and returns its new value.
--
-- Other data of an execution.
-- @call    result(at, c, execution_id)     Its result, or false.
-- @call    named_result(at, c, execution_id)  Its result, or the name of a large one that is stored by itself; false without one.
-- @call    write_result(at, c, execution_id, text)  Writes its result; nil removes it. Returns it as named_result does.
-- @call    copy_result(at, result_key, target)  Copies its result, which has a key of the contract, to another key. Returns
--          whether there is a result.
-- @call    policy(at, c, execution_id)     Its policy document as text, or nil.
-- @call    timer_input(at, c, core, of)    The input of a timer node as JSON: its run's input, or the result of the upstream that
--          provides it; "" for records, which have none.
-- @call    is_finally(at)                  Whether it runs however its flow ends.
-- @call    is_node_of(at, flow_id)         Whether it is a node of the graph of a flow.
--
-- Its way through the states, in the usual case.
-- @call    fresh(at)                       The core of an execution that was never claimed and has only the least fields,
--          eligible or blocked by its dependencies, or that is eligible for another attempt, if the store has it at hand: fields
--          of the record and `row`. Else nil.
-- @call    delayed(at)                     The core of such an execution that is delayed, if the store has it at hand. Else nil.
-- @call    mark_ready(at, c)               Marks such an execution as ready to run.
-- @call    held(at, c, args)               The core of an execution whose current, valid lease is the one that a completion
--          names, with the field is_held. Nil for any other.
-- @call    await_retry(at, c, category, reason, due)  Has an execution wait for another attempt after a failure. Returns false
--          when the store leaves that to the caller.
-- @call    succeed(at, c)                  Writes that it has ended with success.
-- @call    suspend(at, c, sleeps, waitpoint_id, detail)  Opens a waitpoint node, or a timer that `sleeps`. Returns false when the
--          store leaves that to the caller.
-- @call    end_wait(at, c)                 Writes that such a node has ended with success. Returns false in the same case.
-- @call    waiting(at)                     The core of an open waitpoint node that has only the least fields, if the store has it
--          at hand. Else nil.
--
-- The edges that lead to it.
-- @call    add_upstream(at, ids)           Adds the nodes to a list from which edges of the graph lead to it.
-- @call    open_edges(at, meta_key)        The number of open edges, and of those that can no longer be satisfied.
-- @call    add_edges(at, c, execution_id, meta_key, count)  Adds `count` open edges. Returns the number of open ones.
-- @call    take_edges(at, c, execution_id, k, count, impossible)  Removes `count` open edges, of which `impossible` can not be
--          satisfied. Returns the number of open ones. `k`: the keys `meta` and `unresolved`, or nil.
-- @call    read_edge(at, k)                The state of an edge: state, outcome, late; nil when there is none. `k`: see
--          edge_state.
-- @call    write_edge(at, c, k, satisfied, outcome, dep)  Marks an edge as satisfied, or as impossible with an outcome; `dep` is
--          its state before.
-- @call    mark_late(at, c, k)             Records that an edge was satisfied only after the decision of its join.
-- @call    close_edge(at, meta_key)        Closes one edge of a join.
-- @call    close_edges(at, c, meta_key, impossible)  Closes all edges of a join; `impossible` of them have failed.
-- @call    ended_edges(at, k)              The edges of the graph to a join that are open though their upstreams have ended: a
--          list of {k, dep, upstream outcome}.
-- @call    recount_edges(at, of_records)   Opens again those edges of the graph to a join that are not satisfied, and clears
--          their other state. Returns the numbers of satisfied and of open ones. `of_records` others are open.
-- @call    reopen_edges(at, c, execution_id, of_records)  Opens the edges of the graph again when a skipped execution runs again,
--          except those that their ended upstreams satisfy; `of_records` others are open. Returns the number of open ones.
-- @call    note_replay(at)                 Records that the execution is about to be replayed.
--
-- The edges that lead from it.
-- @call    add_downstream(at, ids)         Adds the nodes to a list to which edges of the graph lead.
-- @call    count_edges(at)                 The numbers of edges of the graph that lead from it, and to it.
-- @call    add_to_wave(at, c, wave, item)  Adds the edges of the graph to a wave when it has ended, within the call's budget.
--          Returns whether it has no others.
-- @call    reopen_downstream(at)           Marks the edges of the graph for another resolution, as it runs again.
-- @call    end_last(at)                    Records that it has ended as the last one of its flow, so that no edge has to be
--          resolved.
-- @call    drain(at, c, entry)             Works off an entry of the backlog, except edges that have records. Returns whether
--          that is done.

-- @hook Returns the row of an execution, by the key of its core; nil for an execution that has records.
function store.row(core_key) return nil end

-- @hook Returns the store of an execution, by the key of its core, and its place in the store. The key of a flow's record, or of
-- another hash, gives a store that has the functions for fields.
function store.of(core_key) return store_record, core_key end

-- @hook Returns the store of an entry of the backlog, which names an execution or a run.
function store.of_entry(c, entry) return store_record, entry end

-- Returns the store of an edge: the store of its downstream execution for an edge of a graph, and the records for any other edge.
function store.of_edge(k)
  if k.node_edge then return store.of(k.core) end
  return store_record, k.dep
end
