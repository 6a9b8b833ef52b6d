-- Maintenance and operation of budgets: due resets, pending notices to other partitions, lists, removal.

-- Maximum numbers of resets and of owed texts that one tick returns, and time (ms) after which it returns them again unless they
-- were acknowledged.
local MAX_RESETS, MAX_OWED = 64, 256
local AGAIN_MS = 5000

local PAGE = 100

-- Performs the due resets, and returns how many. A budget that no longer exists is removed from the schedule.
local function reset_due(c)
  local count = 0
  local resets_key = key.index_budget_resets(c)
  scan.each_due(c, 'budget', resets_key, MAX_RESETS, function(id)
    local b = budget_use.keys(c, id)
    local stored = record.read(b.definition, budget.RESET_FIELDS)
    if stored and stored.budget_id then
      budget.reset(c, b, id, stored, c.now, c.now_text)
      -- Only this text notifies the executions that wait for the reset.
      redis.call('ZADD', b.due, 'XX', c.now, encode.gate_task(id))
      count = count + 1
    else
      redis.call('ZREM', resets_key, id)
    end
  end)
  return number.text(count)
end

-- Returns an owed text with the data that it needs; nil when there is nothing left to do.
local function task(c, text)
  local kind, id, rest = decode.budget_task(text)
  if not kind then return nil end
  local stored = record.read(key.budget_record(c, id), { 'budget_id', 'gate', 'closed', 'scope_type', 'scope_id', 'wide' }) or {}
  if kind == 'gate' and not stored.budget_id then return nil end
  local flow_id = stored.scope_type == 'run' and stored.scope_id or ''
  if kind == 'run' and flow_id == '' then return nil end
  if kind == 'held' and redis.call('HEXISTS', key.budget_reservations(c, id), rest) == 0 then return nil end
  return { text, stored.gate or '0', stored.closed or '', flow_id, stored.wide or '0' }
end

-- @record budget_task text:text gate:int closed:text flow_id:flow_id wide:bool

-- @function ffx_budget_tick
-- @summary  Resets the budgets of a partition that are due, and returns overdue tasks for other partitions: see the calls of
--           ffx_use_budget. Gates come with their states, and with the run that a budget belongs to.
-- @flags    derives repeatable
-- @key      policies        index.budget_policies
-- @reply    OK now:unix_ms next_due_at:unix_ms resets:int tasks:list(budget_task) faults:list(item_fault)?
function F.ffx_budget_tick(K)
  local c = call.open_guarded(K.policies)
  local resets = reset_due(c)
  local due_key = key.budget_due(c)
  local tasks = {}
  scan.each_due(c, 'budget', due_key, MAX_OWED, function(text)
    local found = task(c, text)
    if found then
      tasks[#tasks + 1] = found
      redis.call('ZADD', due_key, c.now + AGAIN_MS, text)
    else
      redis.call('ZREM', due_key, text)
    end
  end)
  local at
  for _, index in ipairs({ key.index_budget_resets(c), due_key }) do
    local first = redis.call('ZRANGE', index, 0, 0, 'WITHSCORES')
    local score = tonumber(first[2] or nil)
    if score and (not at or score < at) then at = score end
  end
  wake.visited(c, at)
  return reply.ok(c.now_text, at and number.text(at) or '', resets, tasks, c.faults)
end

-- Removes an owed text that is done. The text of a gate stays when the gate has changed since.
local function done(c, entry)
  local due_key = key.budget_due(c)
  local kind, id = decode.budget_task(entry.text)
  if kind == 'gate' and redis.call('HGET', key.budget_record(c, id), 'gate') ~= entry.gate then return end
  local again = number.finite(entry.again_at)
  if again and again > 0 then
    redis.call('ZADD', due_key, 'XX', again, entry.text)
  else
    redis.call('ZREM', due_key, entry.text)
  end
end

-- Takes back reservations. Returns how many there were.
local function take_back(c, list)
  local used, count = {}, 0
  local function take(_, entry)
    local b = used[entry.budget_id] or budget_use.keys(c, entry.budget_id)
    used[entry.budget_id] = b
    if budget_use.take_back(b, entry.reservation) then
      b.given_back, count = true, count + 1
    else
      redis.call('ZREM', key.budget_due(c), encode.held_task(entry.budget_id, entry.reservation))
    end
  end
  for _, entry in ipairs(list) do call.guarded(c, 'budget', entry.budget_id, take, entry) end
  for id, b in pairs(used) do
    if b.given_back then
      call.guarded(c, 'budget', id, function()
        budget_use.write(b)
        budget_use.given_back(c, b)
      end)
    end
  end
  return count
end

-- @function ffx_budget_done
-- @summary  Removes owed texts that are done, or sets the time of their next check. Reservations whose lease is `over` are
--           released.
-- @flags    derives repeatable
-- @key      policies        index.budget_policies
-- @group    done            text:text gate:int again_at:unix_ms
-- @group    over            budget_id:budget_id reservation:text
-- @reply    OK released:int faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_budget_done(K, A)
  if not A.done or not A.over then return reply.err('invalid_input', 'the counts do not fit the arguments') end
  local c = call.open_guarded(K.policies)
  local released = take_back(c, A.over)
  for _, entry in ipairs(A.done) do call.guarded(c, 'budget', entry.text, function() done(c, entry) end) end
  return reply.ok(number.text(released), c.faults)
end

-- @record budget_amount name:text spent:int reserved:int hard:int soft:int
-- @record budget_state budget_id:budget_id name:text key:text scope_type:text scope_id:text effect:text interval:ms next_reset_at:unix_ms pinned:bool closed:text breach_count:int soft_breach_count:int reset_count:int gate:int wide:bool namespace:text dims:list(budget_amount)

local STATE_FIELDS = { 'budget_id', 'name', 'key', 'scope_type', 'scope_id', 'on_hard_limit', 'reset_interval_ms', 'next_reset_at',
  'pinned', 'closed', 'breach_count', 'soft_breach_count', 'reset_count', 'gate', 'wide', 'namespace' }

-- Returns the state of a budget, in the order of the record above; nil when there is none.
local function state_of(c, id)
  local b = budget_use.keys(c, id)
  local stored = record.read(b.definition, STATE_FIELDS)
  if not stored or not stored.budget_id then return nil end
  local entry_row = {}
  for i, field in ipairs(STATE_FIELDS) do entry_row[i] = stored[field] or '' end
  entry_row[7] = number.digits(number.finite(entry_row[7]) or 0)
  entry_row[9] = stored.pinned and '1' or '0'
  for i = 11, 15 do entry_row[i] = entry_row[i] == '' and '0' or entry_row[i] end
  local amounts = {}
  for i, d in ipairs(budget_use.dimensions(b)) do
    amounts[i] = { d.name, number.digits(d.used), number.digits(d.reserved), number.digits(d.hard), number.digits(d.soft) }
  end
  entry_row[17] = amounts
  return entry_row
end

-- @function ffx_get_budgets
-- @summary  Returns the states of budgets. Budgets that do not exist are left out.
-- @flags    derives readonly
-- @key      policies        index.budget_policies
-- @args     budget_ids      budget_id
-- @reply    OK budgets:list(budget_state)
function F.ffx_get_budgets(K, A)
  local c = call.open(K.policies)
  local list = {}
  for _, id in ipairs(A.budget_ids) do list[#list + 1] = state_of(c, id) end
  return reply.ok(list)
end

-- @function ffx_list_budgets
-- @summary  Returns the budgets of a partition with their states, in pages.
-- @flags    derives readonly
-- @key      policies        index.budget_policies
-- @arg      cursor          text optional
-- @reply    OK next_cursor:text budgets:list(budget_state)
function F.ffx_list_budgets(K, A)
  local c = call.open(K.policies)
  local page = redis.call('SSCAN', K.policies, is_set(A.cursor) and A.cursor or '0', 'COUNT', PAGE)
  local list = {}
  for _, id in ipairs(page[2]) do list[#list + 1] = state_of(c, id) end
  return reply.ok(page[1] == '0' and '' or page[1], list)
end

-- @function ffx_remove_budget
-- @summary  Removes a budget with its usage and its reservations. A closed gate is opened first. The budget is then removed by a
--           call after the partitions were notified (`told` is false until then); with `over`, nothing can wait for it.
-- @flags    derives repeatable
-- @key      definition      budget.record
-- @arg      budget_id       budget_id
-- @arg      over            bool
-- @reply    OK gate:int told:bool
-- @reply    ALREADY_SATISFIED gate:int told:bool
function F.ffx_remove_budget(K, A)
  local c = call.open(K.definition)
  local b = budget_use.keys(c, A.budget_id)
  local stored = record.read(b.definition, { 'budget_id', 'gate', 'closed' })
  if not stored or not stored.budget_id then return reply.already('0', '0') end
  if A.over ~= '1' then
    budget.reopen(c, b, A.budget_id, stored)
    if redis.call('ZSCORE', b.due, encode.gate_task(A.budget_id)) then return reply.ok(stored.gate, '1') end
  end
  local owed = { encode.gate_task(A.budget_id), encode.run_task(A.budget_id) }
  for _, id in ipairs(redis.call('HKEYS', b.reservations)) do owed[#owed + 1] = encode.held_task(A.budget_id, id) end
  redis.call('DEL', b.definition, b.limits, b.usage, b.reserved, b.reservations)
  redis.call('SREM', b.policies, A.budget_id)
  redis.call('ZREM', b.resets, A.budget_id)
  call.chunked('ZREM', b.due, owed)
  return reply.ok('0', '0')
end
