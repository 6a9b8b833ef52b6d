-- Where executions are kept. One that was created by itself has records: a hash and keys of its own. A node of a run that was
-- submitted whole has a row in the string of its run, and its edges are in the graph of the run. Rules that concern both ask for
-- the store of an execution, and call the functions that are declared here:
--
--   local s, at = store.of(core_key)
--   local text = s.result(at, c, execution_id)
--
-- Both stores have all of these functions: store_record.lua has those for records, composite/rows/store_row.lua those for rows. `at`
-- says where in its store something is: of records it is the key of the core, or the id of a flow; of rows the row, or the run.

-- @store   store_record store_row
--
-- Fields of an execution. Records are all hashes, not only those of executions.
-- @call    read(at, fields, telling)       Table of the named fields (absent fields are nil, empty ones ""), or nil when the
--          record does not exist. `telling`: a hash with none of the fields is none of those that are looked for.
-- @call    values(at, ...)                 Values of the named fields in order, false for those that are absent.
-- @call    value(at, field)                One field, false when it is absent.
-- @call    all(at)                         All fields of a hash, as HGETALL gives them; none of a row.
-- @call    exists(at)                      1 or 0.
-- @call    set(at, ...)                    Sets fields: names and values in turn.
-- @call    clear(at, ...)                  Unsets fields.
-- @call    add(at, field, by)              Adds to a field and gives its new value.
--
-- What else belongs to an execution.
-- @call    result(at, c, execution_id)     Its result, or false.
-- @call    write_result(at, c, execution_id, text)  Writes it; nil takes it away.
-- @call    copy_result(at, result_key, target)  Writes its result, which has a key of the contract, to another one. Whether there
--          is one.
-- @call    policy(at, c, execution_id)     Its policy document as text, or nil.
-- @call    timer_input(at, c, core, of)    The input of a timer node as JSON: that of its run, or the result of the upstream
--          that brings it; "" of records, which have none.
-- @call    is_finally(at)                  Whether it runs however its flow ends.
-- @call    is_node_of(at, flow_id)         Whether it is a node of the graph of a flow.
--
-- Its way through the states, in the usual case.
-- @call    fresh(at)                       The core of one that nobody has claimed yet and that needs nothing beyond the least,
--          eligible or blocked by its dependencies, if the store has that at hand: fields of the record and `row`. Else nil.
-- @call    mark_ready(at, c)               One of these may run now.
-- @call    held(at, c, args)               The core of one whose lease, which stands, is the one that a completion names, with
--          the field is_held. Nil for any other.
-- @call    succeed(at, c)                  Writes that it has ended with success.
--
-- The edges that lead to it.
-- @call    add_upstream(at, ids)           Adds the nodes to a list from which edges of the graph lead to it.
-- @call    open_edges(at, meta_key)        How many are open, and how many cannot be satisfied any more.
-- @call    add_edges(at, c, execution_id, meta_key, count)  So many more are open. Gives how many are then.
-- @call    take_edges(at, c, execution_id, k, count, impossible)  So many less are open, of which `impossible` can not be
--          satisfied. Gives how many are left. `k`: the keys `meta` and `unresolved`, or nil.
-- @call    read_edge(at, k)                How one stands: state, outcome, late; nil when there is none. `k` is that of edge_state.
-- @call    write_edge(at, c, k, satisfied, outcome, dep)  It is satisfied, or impossible with an outcome; `dep` is what it was.
-- @call    mark_late(at, c, k)             It was satisfied when its join had come to its decision.
-- @call    close_edge(at, meta_key)        One of a join is not open any more.
-- @call    close_edges(at, c, meta_key, impossible)  None of a join is open any more; `impossible` of them have failed.
-- @call    ended_edges(at, k)              Those of the graph to a join that are open though their upstreams have ended: a list of
--          {k, dep, upstream outcome}.
-- @call    recount_edges(at, of_records)   Opens those of the graph to a join anew that are not satisfied, and forgets what else
--          was known of them. Gives how many are satisfied, and how many open. `of_records` others are open.
-- @call    reopen_edges(at, c, execution_id, of_records)  A skipped execution runs again: opens those of the graph again, unless
--          their upstreams have ended by now as they want it; `of_records` others are open. Gives how many are open.
-- @call    note_replay(at)                 The execution is about to be replayed.
--
-- The edges that lead on from it.
-- @call    add_downstream(at, ids)         Adds the nodes to a list that edges of the graph lead to.
-- @call    count_edges(at)                 How many edges of the graph lead on from it, and how many to it.
-- @call    add_to_wave(at, c, wave, item)  It has ended: adds its edges of the graph to a wave, as far as the call's budget goes.
--          Whether it has no others.
-- @call    reopen_downstream(at)           It runs again: those of the graph are to be resolved again.
-- @call    end_last(at)                    It has ended as the last one of its flow, so nothing has to be told of that.
-- @call    drain(at, c, entry)             Works off an entry of the backlog, but for edges that have records. Whether that is done.
--
-- Flows.
-- @call    node_count(at)                  How many nodes its graph has.
-- @call    add_nodes(at, ids, from, to)    Adds the executions of some of them to a list.
-- @call    plain_flow(at, c, flow_id)      The record of a run that its rows call plain, with what its end needs to know; nil for
--          others. It has no joins and no children, and is not paused.
-- @call    note_unusual(at)                The record of the flow says something by which its run is no longer plain.
-- @call    note_extended(at)               It gets members or edges that are not those of its graph.
-- @call    add_open(at, flow_key, by)      Changes how many members are open. Gives how many are then.
-- @call    result_execution(at)            The execution whose result is that of the run; nil when the graph names none.

-- @hook The row of an execution, by the key of its core; nil for one that has records.
function store.row(core_key) return nil end

-- @hook The store of an execution, by the key of its core or of another hash, and where it is there.
function store.of(core_key) return store_record, core_key end

-- @hook The store of a flow by its id.
function store.of_flow(c, flow_id) return store_record, flow_id end

-- @hook The same by the key of its record.
function store.of_flow_key(flow_key) return store_record, flow_key end

-- @hook The store of what an entry of the backlog names: an execution, or a run.
function store.of_entry(c, entry) return store_record, entry end

-- The store of an edge: that of the execution which it leads to, when it is one of a graph, and else that of records.
function store.of_edge(k)
  if k.node_edge then return store.of(k.core) end
  return store_record, k.dep
end
