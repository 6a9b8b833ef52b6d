-- Executions that have records: see store.lua.

local function nothing() end

local function none() return nil end

function store_record.read(hash, fields, telling)
  local values = redis.call('HMGET', hash, unpack(fields))
  local found = false
  local out = {}
  for i = 1, #fields do
    local value = values[i]
    if value then
      out[fields[i]] = value
      found = true
    end
  end
  if found or not telling and redis.call('EXISTS', hash) == 1 then return out end
  return nil
end

function store_record.values(hash, ...) return redis.call('HMGET', hash, ...) end

function store_record.value(hash, field) return redis.call('HGET', hash, field) end

function store_record.all(hash) return redis.call('HGETALL', hash) end

function store_record.exists(hash) return redis.call('EXISTS', hash) end

function store_record.set(hash, ...) redis.call('HSET', hash, ...) end

function store_record.clear(hash, ...) redis.call('HDEL', hash, ...) end

function store_record.add(hash, field, by) return redis.call('HINCRBY', hash, field, by) end

function store_record.result(_, c, execution_id) return redis.call('GET', key.exec_result(c, execution_id)) end

store_record.named_result = store_record.result

-- The contract stores no result without bytes.
function store_record.write_result(_, c, execution_id, text)
  local result_key = key.exec_result(c, execution_id)
  if is_set(text) then redis.call('SET', result_key, text) else redis.call('DEL', result_key) end
  return text
end

function store_record.copy_result(_, result_key, target) return redis.call('COPY', result_key, target, 'REPLACE') == 1 end

function store_record.policy(_, c, execution_id) return redis.call('GET', key.exec_policy(c, execution_id)) or nil end

function store_record.timer_input() return '' end

function store_record.is_finally() return false end

function store_record.is_node_of() return false end

store_record.fresh, store_record.delayed, store_record.waiting, store_record.mark_ready = none, none, none, nothing

local function no() return false end

store_record.await_retry, store_record.suspend, store_record.end_wait = no, no, no

function store_record.held(core_key, c, args)
  local v = redis.call('HMGET', core_key, 'lifecycle_phase', 'ownership_state', 'lease_expires_at', 'current_lease_id',
    'current_lease_epoch', 'current_attempt_id', 'current_attempt_index', 'current_worker_instance_id', 'lane_id',
    'current_lane', 'flow_id', 'managed', 'node', 'attached')
  local is_held = v[1] == 'active' and v[2] == 'leased' and (tonumber(v[3] or nil) or 0) > c.now
    and v[4] == args.lease_id and v[5] == args.lease_epoch and v[6] == args.attempt_id
    and is_set(v[4]) and is_set(v[5]) and is_set(v[6])
  if not is_held then return nil end
  return {
    is_held = true, lifecycle_phase = 'active', ownership_state = 'leased', current_attempt_index = v[7] or nil,
    current_worker_instance_id = v[8] or nil, lane_id = v[9] or nil, current_lane = v[10] or nil, flow_id = v[11] or nil,
    managed = v[12] or nil, node = v[13] or nil, attached = v[14] or nil,
  }
end

-- The record of a member of a managed flow still has the values that its claim wrote: its eligibility and its blocking fields
-- already have the values that they need at the end. Writing "" to a field costs less than deleting it, which compaction does.
function store_record.succeed(core_key, c)
  redis.call('HSET', core_key,
    'lifecycle_phase', 'terminal',
    'ownership_state', 'unowned',
    'attempt_state', 'attempt_terminal',
    'public_state', 'completed',
    'last_transition_at', c.now_text,
    'last_mutation_at', c.now_text,
    'terminal_outcome', 'success',
    'completed_at', c.now_text,
    'current_lease_id', '',
    'lease_expires_at', '',
    'current_worker_instance_id', '',
    'current_worker_id', '')
end

store_record.add_upstream, store_record.add_downstream = nothing, nothing

local OPEN, IMPOSSIBLE = 'unsatisfied_required_count', 'impossible_required_count'

function store_record.open_edges(_, meta_key)
  local counts = redis.call('HMGET', meta_key, OPEN, IMPOSSIBLE)
  return math.max(0, tonumber(counts[1] or nil) or 0), tonumber(counts[2] or nil) or 0
end

function store_record.add_edges(_, _, _, meta_key, count) return redis.call('HINCRBY', meta_key, OPEN, count) end

-- When the counter is 0, the open edges are counted again after a start of the server.
function store_record.take_edges(_, c, execution_id, k, count, impossible)
  local meta_key = k and k.meta or key.exec_deps_meta(c, execution_id)
  local left = redis.call('HINCRBY', meta_key, OPEN, -count)
  if left <= 0 and call.in_doubt(c) then
    local open = redis.call('SCARD', k and k.unresolved or key.exec_deps_unresolved(c, execution_id))
    if open ~= left then redis.call('HSET', meta_key, OPEN, number.text(open)) end
    left = open
  end
  if impossible > 0 then redis.call('HINCRBY', meta_key, IMPOSSIBLE, impossible) end
  return left
end

local EDGE_FIELDS = {
  'state', 'outcome', 'late', 'flow_id', 'downstream_execution_id', 'upstream_execution_id', 'dependency_kind',
}

function store_record.read_edge(dep_key) return store_record.read(dep_key, EDGE_FIELDS) end

function store_record.write_edge(dep_key, c, _, satisfied, outcome, dep)
  redis.call('HSET', dep_key, 'state', satisfied and 'satisfied' or 'impossible', 'last_resolved_at', c.now_text)
  if not satisfied then
    redis.call('HSET', dep_key, 'outcome', outcome)
  elseif dep.outcome then
    redis.call('HDEL', dep_key, 'outcome')
  end
end

function store_record.mark_late(dep_key) redis.call('HSET', dep_key, 'late', '1') end

function store_record.close_edge(_, meta_key) redis.call('HINCRBY', meta_key, OPEN, -1) end

function store_record.close_edges(_, c, meta_key, impossible)
  redis.call('HSET', meta_key, OPEN, '0', IMPOSSIBLE, number.text(impossible), 'last_dependency_update_at', c.now_text)
end

local NO_EDGES = {}

function store_record.ended_edges() return NO_EDGES end

function store_record.recount_edges(_, of_records) return 0, of_records end

function store_record.reopen_edges(_, c, execution_id, of_records)
  redis.call('HSET', key.exec_deps_meta(c, execution_id), OPEN, number.text(of_records), IMPOSSIBLE, '0',
    'last_dependency_update_at', c.now_text)
  return of_records
end

store_record.note_replay = nothing

function store_record.count_edges() return 0, 0 end

function store_record.add_to_wave() return false end

store_record.reopen_downstream, store_record.end_last = nothing, nothing

function store_record.drain() return true end
