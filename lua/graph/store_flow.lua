-- Flows that have a hash: see flow_store.lua.

local function nothing() end

local function none() return nil end

store_flow.read, store_flow.values, store_flow.value = store_record.read, store_record.values, store_record.value

store_flow.all, store_flow.exists = store_record.all, store_record.exists

store_flow.set, store_flow.clear, store_flow.add = store_record.set, store_record.clear, store_record.add

function store_flow.node_count() return 0 end

store_flow.add_nodes, store_flow.plain_flow = nothing, none

function store_flow.flow(flow_key, _, _, fields) return store_record.read(flow_key, fields) end

store_flow.note_unusual, store_flow.note_judged, store_flow.note_extended = nothing, nothing, nothing

store_flow.note_success, store_flow.write_out = nothing, nothing

store_flow.count_noted, store_flow.read_noted, store_flow.read_noted_of = none, none, none

function store_flow.add_open(flow_key, by) return redis.call('HINCRBY', flow_key, 'open_nodes', by) end

store_flow.result_execution = none
