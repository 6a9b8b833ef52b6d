-- The stores of flows. A flow that was created by the contract's calls has a hash. A run that was submitted as a whole has the
-- header of its rows. A rule that concerns both gets the store of a flow, and calls the functions that are declared here:
--
--   local s, at = flow_store.of(c, flow_id)
--   local count = s.node_count(at)
--
-- `at` is the place in the store: the key of the hash, or the run. store_flow.lua has the functions for hashes,
-- composite/rows/store_run.lua those for runs.

-- @store   store_flow store_run
--
-- Fields of a flow.
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
-- Its nodes.
-- @call    node_count(at)                  The number of nodes of its graph.
-- @call    add_nodes(at, ids, from, to)    Adds the executions of some of them to a list.
-- @call    plain_flow(at, c, flow_id)      The record of a run that its rows mark as plain, with the fields that its end needs;
--          nil for others. All of its nodes that have ended have succeeded.
-- @call    flow(at, c, flow_id, fields)    The named fields, which calls on its members need, or nil when the flow does not exist.
-- @call    note_unusual(at)                Records that the flow has a field that a plain run does not have.
-- @call    note_judged(at)                 Records that a member of the flow has ended without success.
-- @call    note_extended(at)               Records that it gets members or edges in addition to its graph.
-- @call    note_success(at, c)             Records the success of the flow where its events follow from its rows. Returns whether
--          it does, so that it is not logged.
-- @call    write_out(at, c)                Writes the events that follow from rows into the event log, before the first one that
--          does not. Returns whether the call has created the flow.
-- @call    count_noted(at)                 The number of the events that follow from rows; nil when they are in the event log.
-- @call    read_noted(at, c, from, limit)  These events from a position on, at most `limit`: id, time, kind, node, attempt, detail.
-- @call    read_noted_of(at, c, node)      The events of one node among them, the latest first; of the flow itself for "".
-- @call    add_open(at, by)                Changes the number of open members. Returns the new number.
-- @call    result_execution(at)            The execution whose result becomes the run's result; nil when the graph names none.

-- @hook Returns the store of a flow by its id, and its place there.
function flow_store.of(c, flow_id) return store_flow, key.flow_core(c, flow_id) end

-- @hook Does the same by the key of the flow's record.
function flow_store.of_key(flow_key) return store_flow, flow_key end
