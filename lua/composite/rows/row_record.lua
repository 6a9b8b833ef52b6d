-- Rows as records: reads the fields of an execution's core from its row, its graph and its run, and writes them there. Fields
-- without their own place are in the hash `more` of the run, under `<ordinal> <field>`.

-- How fields are read: a function of the row for each. Fields without a result are read from `more`.
local READ = {}

-- How they are written: with the text, or nil when the field is unset.
local WRITE = {}

local function flag(r, mask) return r.flags % (2 * mask) >= mask end

local function set_flag(r, mask, on)
  if flag(r, mask) ~= on then r.flags = r.flags + (on and mask or -mask) end
end

row_record.flag, row_record.set_flag = flag, set_flag

local function more_field(r, field) return r.ordinal .. ' ' .. field end

-- Returns the fields in `more` that the call has read: false for missing ones.
local function more_of(r)
  local more = r.more
  if not more then
    more = {}
    r.more = more
  end
  return more
end

-- Fields that many calls read, or unset, of a node with any field in `more`: they are read together with the first of all, and
-- missing ones need not be unset.
local COMMON = {
  'lane_id', 'current_lane', 'priority', 'attached', 'limits', 'admission', 'blocking_detail', 'current_attempt_id', 'replay_count',
  'lease_last_renewed_at', 'lease_renewal_deadline', 'lease_expired_at', 'lease_revoked_at', 'lease_revoke_reason',
}

-- Reads fields from `more` that the call has not read yet.
local function read_more(r, fields)
  local more, names, wanted = more_of(r), {}, {}
  local function want(list)
    for i = 1, #list do
      local field = list[i]
      if more[field] == nil then
        more[field] = false
        wanted[#wanted + 1], names[#names + 1] = field, more_field(r, field)
      end
    end
  end
  want(fields)
  if #names == 0 then return more end
  if not r.has_common then
    r.has_common = true
    want(COMMON)
  end
  local values = redis.call('HMGET', row.more_key(r.run), unpack(names))
  for i = 1, #values do more[wanted[i]] = values[i] end
  return more
end

-- Returns a field in `more`; nil when the row has none.
local function more_value(r, field)
  local more = r.more
  local text = more and more[field]
  if text or text == false then return text or nil end
  if not flag(r, node_row.MORE) then return nil end
  return read_more(r, { field })[field] or nil
end

local function write_more(r, field, text)
  local more = more_of(r)
  if text == nil then
    if more[field] == false or not flag(r, node_row.MORE) then return end
    row.write_more(r.run, more_field(r, field), false)
    more[field] = false
    return
  end
  text = tostring(text)
  if more[field] == text then return end
  if not flag(r, node_row.MORE) then
    set_flag(r, node_row.MORE, true)
    row.touch(r)
  end
  row.write_more(r.run, more_field(r, field), text)
  more[field] = text
end

-- State fields: their column and values. A value without a number is 255, and in `more`.
local function state_field(field, column, values)
  local numbers = {}
  for i = 1, #values do numbers[values[i]] = i end
  READ[field] = function(r) return values[r[column]] or more_value(r, field) end
  WRITE[field] = function(r, text)
    local n = numbers[text]
    if n then
      r[column] = n
      return
    end
    r[column] = 255
    write_more(r, field, text)
  end
end

-- Whole numbers. One that is `max` or more is in `more`.
local function number_field(field, column, max)
  READ[field] = function(r)
    if r[column] == max then return more_value(r, field) or number.text(max) end
    return number.text(r[column])
  end
  WRITE[field] = function(r, text)
    local n = tonumber(text) or 0
    r[column] = math.min(n, max)
    if n >= max then write_more(r, field, text) end
  end
end

local MAX = { byte = 255, short = 65535, long = 4294967295 }

-- Times (Unix ms); 0 is none.
local function time_field(field, column)
  READ[field] = function(r)
    local at = r[column]
    return at > 0 and number.time(at) or nil
  end
  WRITE[field] = function(r, text) r[column] = tonumber(text) or 0 end
end

-- Fields of the graph, unless `more` has another value.
local function graph_field(field, name)
  READ[field] = function(r) return graph_store.of_row(r)[name] end
end

-- Attempts of a row.
local function attempt_of(lease_id)
  return string.sub(lease_id, 1, 24) .. '1' .. string.sub(lease_id, 26)
end

local function define()
  state_field('lifecycle_phase', 'phase', node_row.PHASE)
  state_field('ownership_state', 'owner', node_row.OWNER)
  state_field('eligibility_state', 'elig', node_row.ELIG)
  state_field('blocking_reason', 'why', node_row.WHY)
  state_field('terminal_outcome', 'outcome', node_row.OUTCOME)
  state_field('attempt_state', 'attempt', node_row.ATTEMPT)
  state_field('public_state', 'public', node_row.PUBLIC)
  number_field('total_attempt_count', 'total', MAX.short)
  number_field('retry_count', 'retries', MAX.short)
  number_field('lease_reclaim_count', 'reclaims', MAX.byte)
  number_field('current_lease_epoch', 'epoch', MAX.long)
  time_field('lease_expires_at', 'expires')
  time_field('lease_acquired_at', 'acquired')
  time_field('started_at', 'started')
  time_field('completed_at', 'ended')
  time_field('last_transition_at', 'changed')
  graph_field('node', 'name')
  graph_field('execution_kind', 'kind')
  graph_field('required_capabilities', 'capabilities')
  graph_field('attempt_timeout', 'attempt_timeout')
  graph_field('start_timeout', 'start_timeout')
  graph_field('input_count', 'input_count')
  graph_field('wait_spec', 'wait')
end
define()

-- The time of the last change other than a transition is not kept.
READ.last_mutation_at = READ.last_transition_at
function WRITE.last_mutation_at() end

function READ.execution_id(r) return row.execution_id(r.run, r.ordinal) end
function READ.flow_id(r) return r.run.id end
function READ.managed() return '1' end
function READ.is_row() return '1' end
function READ.partition_id(r) return string.match(r.run.tag, ':(%d+)}') end
function READ.created_at(r) return number.time(r.run.created) end
function READ.uses_flow_input(r) return graph_store.of_row(r).uses_flow_input end
function READ.wait(r) return graph_store.of_row(r).wait and '1' or nil end

-- Fields of a run that count for all of its nodes.
local function run_field(field, flow_field)
  READ[field] = function(r)
    local known = r.run.known_fields
    if not known then
      known = {}
      r.run.known_fields = known
    end
    if known[field] == nil then known[field] = store_run.value(r.run, flow_field) end
    return known[field] or nil
  end
end
run_field('namespace', 'namespace')
run_field('creator_identity', 'creator_identity')
run_field('budget_ids', 'budget_ids')

-- Fields that may be in `more` although another place has them, too.
local CHANGEABLE = { current_attempt_id = true, attached = true, replay_count = true }

-- Lanes and priorities come from the graph until a call changes them.
local function changeable_field(field, name)
  CHANGEABLE[field] = true
  READ[field] = function(r)
    local text = more_value(r, field)
    if text then return text end
    return graph_store.of_row(r)[name]
  end
  WRITE[field] = function(r, text)
    if text and tostring(text) == graph_store.of_row(r)[name] then text = nil end
    write_more(r, field, text)
  end
end
changeable_field('lane_id', 'lane_id')
changeable_field('current_lane', 'lane_id')
changeable_field('priority', 'priority')

-- So do limits, except those that a run itself has since their keys are in its input.
changeable_field('limits', 'limits')
CHANGEABLE.quota_policy_id = true
function READ.quota_policy_id(r)
  local own = more_value(r, 'quota_policy_id')
  local limits = not own and graph_store.of_row(r).limits
  return own or limits and limit_admission.quotas_of(limits)[1] or nil
end
function WRITE.quota_policy_id(r, text) write_more(r, 'quota_policy_id', text) end

-- The admission of a node that was leased for the first time ahead of its places is a flag.
CHANGEABLE.admission = true
function READ.admission(r)
  if flag(r, node_row.AHEAD) then return limit_admission.FIRST_AHEAD end
  return more_value(r, 'admission')
end
function WRITE.admission(r, text)
  set_flag(r, node_row.AHEAD, text == limit_admission.FIRST_AHEAD)
  if flag(r, node_row.AHEAD) then text = nil end
  write_more(r, 'admission', text)
end

run_field('start_at', 'start_at')

-- Defines the fields about delays and failures that follow from others.
local function define_waits()
  local RETRIED = node_row.RETRIED

  -- The last failure of a node that is tried again is one field: the time of the next attempt, the length of the category (bytes),
  -- the category and the reason. Fields about it follow from that field and the state of the row, until a call sets one of them.
  local FAILURE = 'failure'

  -- Returns the last failure of a node that is tried again. `more_key`: the key of the hash `more` of its run.
  function row_record.failure(more_key, ordinal)
    local text = redis.call('HGET', more_key, ordinal .. ' ' .. FAILURE) or ''
    local due, length, from = string.match(text, '^(%d+) (%d+) ()')
    if not due then error('the failure of node ' .. ordinal .. ' is missing in ' .. more_key, 0) end
    local last = from + tonumber(length)
    return { due = due, category = last > from and string.sub(text, from, last - 1) or nil, reason = string.sub(text, last) }
  end

  -- Returns the same for a row; nil when its node is not tried again.
  local function failure_of(r)
    if not flag(r, RETRIED) then return nil end
    local failure = r.failure or row_record.failure(row.more_key(r.run), r.ordinal)
    r.failure = failure
    return failure
  end

  -- Returns the stored form of a failure.
  function row_record.failure_text(due, category, reason)
    return number.time(due) .. ' ' .. number.text(#category) .. ' ' .. category .. reason
  end

  -- Records the failure of a node that is tried again at a time (ms).
  function row_record.note_failure(r, due, category, reason)
    category = category or ''
    r.failure = { due = number.time(due), category = category ~= '' and category or nil, reason = reason }
    row.write_more(r.run, more_field(r, FAILURE), row_record.failure_text(due, category, reason))
    set_flag(r, RETRIED, true)
  end

  local FAILURE_FIELDS = {
    'failure_reason', 'failure_category', 'pending_retry_reason', 'pending_previous_attempt_index', 'delay_until', 'blocking_detail',
  }

  -- Gives each of these fields its own place.
  local function spread_failure(r)
    if not flag(r, RETRIED) then return end
    local values = {}
    for i = 1, #FAILURE_FIELDS do values[i] = READ[FAILURE_FIELDS[i]](r) or false end
    set_flag(r, RETRIED, false)
    row.write_more(r.run, more_field(r, FAILURE), false)
    for i = 1, #FAILURE_FIELDS do
      if values[i] then write_more(r, FAILURE_FIELDS[i], values[i]) end
    end
  end

  -- The delay of a node counts from the start of its run. It is shown until it is over. Nodes without upstreams wait for the start
  -- of their run.
  local DELAYED, FOR_DELAY, FOR_RETRY = 2, 3, 4

  local function is_delayed(r) return r.elig == DELAYED and r.why == FOR_DELAY end

  local function awaits_retry(r) return r.elig == DELAYED and r.why == FOR_RETRY and flag(r, RETRIED) end

  local function delay_of(r)
    local delay = graph_store.of_row(r).delay
    if not delay and not is_delayed(r) then return nil end
    local start_at = r.run.start_at or tonumber(READ.start_at(r) or nil)
    if not start_at and not delay then return nil end
    return (start_at or r.run.created) + (tonumber(delay) or 0)
  end

  CHANGEABLE.delay_until = true
  function READ.delay_until(r)
    local text = more_value(r, 'delay_until')
    if text then return text end
    if awaits_retry(r) then return failure_of(r).due end
    local at = delay_of(r)
    return at and (at > call.time() or is_delayed(r)) and number.time(at) or nil
  end
  function WRITE.delay_until(r, text) write_more(r, 'delay_until', text) end

  -- Returns the text about an open waitpoint node: for a timer, the one of a constant duration that began when it opened.
  local function wait_text(r, spec)
    if not spec.sleeps then return wait.detail(row_record.waitpoint(r)) end
    return spec.timeout and timer.detail(r.changed + spec.timeout)
  end

  -- The text about such a delay, or such a wait.
  local function delay_text(r)
    local spec = r.phase == 3 and graph_store.of_row(r).wait
    if spec then return wait_text(r, wait.of_node(spec)) end
    local at = is_delayed(r) and delay_of(r)
    return at and 'delayed until ' .. number.time(at) or nil
  end

  CHANGEABLE.blocking_detail = true
  function READ.blocking_detail(r)
    local text = more_value(r, 'blocking_detail')
    if text then return text end
    if not awaits_retry(r) then return delay_text(r) end
    local failure = failure_of(r)
    return retry.detail(failure.due, number.text(r.index), failure.reason)
  end
  function WRITE.blocking_detail(r, text)
    if text and text == delay_text(r) then text = nil end
    write_more(r, 'blocking_detail', text)
  end

  local function failure_field(field, name)
    CHANGEABLE[field] = true
    READ[field] = function(r)
      local failure = failure_of(r)
      if failure then return failure[name] end
      return more_value(r, field)
    end
    WRITE[field] = function(r, text)
      spread_failure(r)
      write_more(r, field, text)
    end
  end
  failure_field('failure_reason', 'reason')
  failure_field('failure_category', 'category')

  local PENDING_RETRY = 5

  -- These are shown until the next attempt begins.
  local function pending_field(field, read)
    CHANGEABLE[field] = true
    READ[field] = function(r)
      if flag(r, RETRIED) then return r.attempt == PENDING_RETRY and read(r) or nil end
      return more_value(r, field)
    end
    WRITE[field] = function(r, text)
      if text then spread_failure(r) end
      write_more(r, field, text)
    end
  end
  pending_field('pending_retry_reason', function(r) return failure_of(r).reason end)
  pending_field('pending_previous_attempt_index', function(r) return number.text(r.index) end)
end
define_waits()

-- The first wait of a waitpoint node has ids that derive from the node.

-- Returns the id of the first waitpoint of a row's node.
function row_record.waitpoint(r)
  local id = r.waitpoint
  if not id then
    id = wait.first_id(r.run.id, graph_store.of_row(r).name)
    r.waitpoint = id
  end
  return id
end

-- Adds a field of a node that is suspended (phase 3).
local function wait_field(field, derive)
  CHANGEABLE[field] = true
  READ[field] = function(r)
    local text = more_value(r, field)
    if text then return text end
    return r.phase == 3 and graph_store.of_row(r).wait and derive(r) or nil
  end
  WRITE[field] = function(r, text)
    if text and graph_store.of_row(r).wait and text == derive(r) then text = nil end
    write_more(r, field, text)
  end
end
wait_field('current_waitpoint_id', row_record.waitpoint)
wait_field('current_suspension_id', function(r) return wait.uuid(row_record.waitpoint(r)) end)

-- The key of a run by which it shares lanes is the same for all of its nodes that are not waitpoints.
run_field('run_fair_key', 'fair_key')
function READ.fair_key(r)
  if not row.is_fair(r.run) or graph_store.of_row(r).wait then return nil end
  return READ.run_fair_key(r)
end

function READ.current_attempt_index(r) return r.index ~= row.NO_ATTEMPT and number.text(r.index) or nil end
function WRITE.current_attempt_index(r, text) r.index = tonumber(text) or row.NO_ATTEMPT end

function READ.current_attempt_id(r)
  if flag(r, node_row.OTHER_ATTEMPT) then return more_value(r, 'current_attempt_id') end
  if r.lease == row.NO_LEASE or r.lease == row.OTHER_LEASE or r.attempt == 5 then return nil end
  return attempt_of(r.lease)
end

function WRITE.current_attempt_id(r, text)
  if is_set(text) and text == attempt_of(r.lease) then
    if flag(r, node_row.OTHER_ATTEMPT) then
      write_more(r, 'current_attempt_id', nil)
      set_flag(r, node_row.OTHER_ATTEMPT, false)
    end
    return
  end
  set_flag(r, node_row.OTHER_ATTEMPT, true)
  write_more(r, 'current_attempt_id', is_set(text) and text or nil)
end

function READ.current_lease_id(r)
  if not flag(r, node_row.LEASED) then return nil end
  if r.lease == row.OTHER_LEASE then return more_value(r, 'lease') end
  return r.lease
end

function WRITE.current_lease_id(r, text)
  if not is_set(text) then
    set_flag(r, node_row.LEASED, false)
    return
  end
  -- The attempt that continues under another lease keeps its id.
  if r.lease ~= text and r.lease ~= row.NO_LEASE and r.lease ~= row.OTHER_LEASE and not flag(r, node_row.OTHER_ATTEMPT) then
    write_more(r, 'current_attempt_id', attempt_of(r.lease))
    set_flag(r, node_row.OTHER_ATTEMPT, true)
  end
  if #text == #row.NO_LEASE then
    r.lease = text
  else
    r.lease = row.OTHER_LEASE
    write_more(r, 'lease', text)
  end
  set_flag(r, node_row.LEASED, true)
end

-- The row of a node that has succeeded still names its worker, for its events. Its owner is 1, unowned.
function READ.current_worker_instance_id(r)
  if r.worker == 0 or r.owner == 1 then return nil end
  return worker_registry.instance(r.run, r.worker)
end

function READ.current_worker_id(r)
  if r.worker == 0 or r.owner == 1 then return nil end
  return worker_registry.worker(r.run, r.worker)
end

-- Worker and instance are one number, which is read when the instance is written.
function WRITE.current_worker_id(r, text) r.worker_id = text end
function WRITE.current_worker_instance_id(r, text)
  r.worker = is_set(text) and worker_registry.number(r.run, text, r.worker_id or '') or 0
end

-- How the fields of a list are read, which is kept with the list, since most lists belong to one rule: the functions, and
-- which fields may be in `more`, with COMMON.
local function plan_of(fields)
  local plan, seen = { wanted = {}, names = {} }, {}
  local wanted = plan.wanted
  for i = 1, #fields do
    local field = fields[i]
    plan[i] = READ[field] or false
    if not plan[i] or CHANGEABLE[field] then wanted[#wanted + 1], seen[field] = field, true end
  end
  for i = 1, #COMMON do
    if not seen[COMMON[i]] then wanted[#wanted + 1] = COMMON[i] end
  end
  fields.plan = plan
  return plan
end

-- Maximum ordinal of the nodes for which the names of fields are kept.
local MAX_KEPT = 10

-- Returns the names in `more` of those fields of a node.
local function names_of(plan, r)
  local names = plan.names[r.ordinal]
  if not names then
    names = {}
    for i = 1, #plan.wanted do names[i] = more_field(r, plan.wanted[i]) end
    if r.ordinal <= MAX_KEPT then plan.names[r.ordinal] = names end
  end
  return names
end

-- Reads the fields of a list with one command, if they may be in `more`.
local function read_ahead(r, plan)
  local wanted = plan.wanted
  if r.more then
    read_more(r, wanted)
    return
  end
  local more, values = {}, redis.call('HMGET', row.more_key(r.run), unpack(names_of(plan, r)))
  for i = 1, #wanted do more[wanted[i]] = values[i] end
  r.more, r.has_common = more, true
end

-- Returns the named fields of a row, as record.read does.
function row_record.read(r, fields)
  local plan = fields.plan or plan_of(fields)
  if flag(r, node_row.MORE) then read_ahead(r, plan) end
  local out, more = {}, r.more
  for i = 1, #fields do
    local field, read = fields[i], plan[i]
    if read then
      out[field] = read(r) or nil
    elseif more then
      out[field] = more[field] or nil
    end
  end
  return out
end

function row_record.value(r, field)
  local read = READ[field]
  if read then return read(r) or false end
  return more_value(r, field) or false
end

function row_record.values(r, ...)
  local fields, values = { ... }, {}
  if flag(r, node_row.MORE) then read_ahead(r, plan_of(fields)) end
  for i = 1, #fields do values[i] = row_record.value(r, fields[i]) end
  return values
end

local function write_field(r, field, text)
  local write = WRITE[field]
  if write then
    write(r, text)
  elseif not READ[field] then
    write_more(r, field, text)
  end
end

-- Writes fields of a row: names and values in turn.
function row_record.set(r, ...)
  local values = { ... }
  for i = 1, select('#', ...), 2 do write_field(r, values[i], values[i + 1]) end
  row.touch(r)
end

-- Unsets fields of a row.
function row_record.clear(r, ...)
  for _, field in ipairs({ ... }) do write_field(r, field, nil) end
  row.touch(r)
end

function row_record.add(r, field, by)
  local sum = (tonumber(row_record.value(r, field) or nil) or 0) + by
  row_record.set(r, field, number.text(sum))
  return sum
end

-- Returns the attempt of a lease that a claim of this library made.
row_record.attempt_of = attempt_of

function row_record.lane(r) return READ.lane_id(r) end

-- `attached` (see lease.is_plain): a timeout comes from the graph, the rest is recorded when it occurs.
function READ.attached(r)
  local text = more_value(r, 'attached')
  if text then return text end
  return graph_store.of_row(r).attempt_timeout and lease.TIMED or nil
end
function WRITE.attached(r, text) write_more(r, 'attached', text) end
row_record.attached = READ.attached

row_record.fair_key = READ.fair_key

function READ.replay_count(r)
  return more_value(r, 'replay_count') or '0'
end
function WRITE.replay_count(r, text) write_more(r, 'replay_count', text) end

function READ.in_row(r) return r.index ~= row.NO_ATTEMPT and not flag(r, node_row.RECORDED) and '1' or nil end
function WRITE.in_row(r, text) set_flag(r, node_row.RECORDED, not is_set(text)) end

