-- Chooses the executions of a lane that a claim takes when more are eligible than it leases.
--
-- By default the head of the eligible set is next: the highest priority, and within one priority the oldest. Two rules change
-- that. Ageing: where executions of different priorities wait, one claim of AGED_EVERY takes the one that has waited longest.
-- Fairness: where executions have a fair key, the keys take turns, and priorities count within one key only.

-- One claim of this number takes the execution that has waited longest.
local AGED_EVERY = 8

-- Maximum number of priorities that this search reads; with more, the next search reads others.
local MAX_PRIORITIES = 16

-- Maximum time (ms) by which the clock of a server may be slower than the clock of the server that it replaces.
local SLACK = 86400000

-- Number of members of the eligible set, entered before the first key, that one claim adds to queues.
local ADOPTED_PER_CLAIM = 100

-- Adds executions that were entered before the first key to the queue of the empty key, some at a time.
local function adopt(c, lane)
  local home = call.home(c)
  local state_key = key.ffx_order(home, lane)
  local cursor = redis.call('HGET', state_key, 'adopted_to')
  if not cursor then return end
  local page = redis.call('ZSCAN', key.lane_eligible(home, lane), cursor, 'COUNT', ADOPTED_PER_CLAIM)
  for i = 1, #page[2], 2 do
    local execution_id = page[2][i]
    if execution_id ~= pauses.MARK then
      local at = call.at(c, execution_id)
      local core = { fair_key = record.value(key.exec_core(at, execution_id), 'fair_key') or nil }
      redis.call('ZADD', order.queue_for(at, lane, execution_id, core), page[2][i + 1], execution_id)
    end
  end
  if page[1] == '0' then
    redis.call('HDEL', state_key, 'adopted_to')
  else
    redis.call('HSET', state_key, 'adopted_to', page[1])
  end
end

-- Returns the priority of a score of an eligible set. Priorities are whole numbers in practice.
local function priority_of(c, score) return math.floor((c.now + SLACK - score) / record.PRIORITY_STEP) end

-- Reports whether an execution with this score in an eligible set has a priority above 0.
function claim_order.is_prioritized(c, score) return priority_of(c, score) > 0 end

-- Maximum number of promised executions that are passed over at the head of an index.
local MAX_SPOKEN_FOR = 16

-- Returns how many entries at the head of an index have to be read, counted from 0 on.
local function last_looked_at(request) return request.spoken_for and MAX_SPOKEN_FOR or 0 end

-- Returns the first available entry of a list of ids and scores, with its score.
local function first_of(request, list)
  for i = 1, #list, 2 do
    if not request.spoken_for or not request.spoken_for(list[i]) then return list[i], tonumber(list[i + 1]) end
  end
  return nil
end

-- Returns the first entry of an index with a score from `from` on: its id, priority and time of creation.
local function first_from(c, request, index_key, from)
  local id, score = first_of(request, redis.call('ZRANGE', index_key, from, '+inf', 'BYSCORE', 'LIMIT', 0,
    last_looked_at(request) + 1, 'WITHSCORES'))
  if not id then return nil end
  local priority = priority_of(c, score)
  return id, priority, score + priority * record.PRIORITY_STEP
end

-- Returns the scores of all priorities below one.
local function below(c, priority)
  return '(' .. number.digits(c.now + SLACK - priority * record.PRIORITY_STEP)
end

-- Returns the execution of an index that has waited longest. The oldest of each priority is at the head of that priority, so one
-- entry is read for each priority; with very many priorities, the next search continues after `field`.
local function longest_waiting(c, request, index_key, field)
  order.write_leaving(c)
  local state_key = key.ffx_order(call.home(c), request.lane)
  local behind = tonumber(redis.call('HGET', state_key, field) or nil)
  local from, around = behind and below(c, behind) or '(-inf', not behind
  local oldest, oldest_at, last
  for _ = 1, MAX_PRIORITIES do
    local id, priority, at = first_from(c, request, index_key, from)
    if not id and not around then
      around = true
      id, priority, at = first_from(c, request, index_key, '(-inf')
    end
    if not id then
      last = nil
      break
    end
    if not oldest_at or at < oldest_at then oldest, oldest_at = id, at end
    from, last = below(c, priority), priority
    if around and behind and priority <= behind then
      last = nil
      break
    end
  end
  if last then
    redis.call('HSET', state_key, field, last)
  elseif behind then
    redis.call('HDEL', state_key, field)
  end
  return oldest
end

-- Counts a claim from an index whose head has this score. Reports whether it takes the execution that has waited longest.
local function is_aged(c, lane, field, score)
  return priority_of(c, score) > 0 and redis.call('HINCRBY', key.ffx_order(call.home(c), lane), field, 1) % AGED_EVERY == 0
end

-- Returns the next execution of an index with a head, by ageing.
local function by_age(c, request, index_key, head, score, fair_key)
  local suffix = fair_key and ' ' .. fair_key or ''
  if not is_aged(c, request.lane, 'claims' .. suffix, score) then return head end
  return longest_waiting(c, request, index_key, 'seen' .. suffix) or head
end

-- Maximum number of keys that one pass over the line skips because their queues were lost, or contain only promised executions.
local MAX_LOST = 16

-- Returns the next execution of the key whose turn it is, and the key, which moves to the end of the line. Nil when no key waits.
local function by_turn(c, request)
  local lane, home = request.lane, call.home(c)
  local turns_key = key.ffx_turns(home, lane)
  for _ = 1, MAX_LOST do
    local fair_key = redis.call('ZRANGE', turns_key, 0, 0)[1]
    if not fair_key then return nil end
    local queue_key = key.ffx_queue(home, lane, fair_key)
    local heads = redis.call('ZRANGE', queue_key, 0, last_looked_at(request), 'WITHSCORES')
    if heads[1] then
      redis.call('ZADD', turns_key, order.last_place(c, lane), fair_key)
      local head, score = first_of(request, heads)
      if head then return by_age(c, request, queue_key, head, score, fair_key), fair_key end
    else
      order.step_out(c, lane, fair_key)
    end
  end
end

-- Prepares to choose when more executions wait than a claim takes. Returns a function that returns the next execution in place of
-- the head of the eligible set `eligible_key` and its score, and the key that has it in its queue.
function claim_order.chooser(c, request, eligible_key)
  local lane = request.lane
  if eligible_key == key.lane_eligible(call.home(c), lane) and order.is_fair(c, lane) then
    adopt(c, lane)
    return function(head)
      local execution_id, fair_key = by_turn(c, request)
      return execution_id or head, fair_key
    end
  end
  return function(head, score)
    if request.aged then
      request.aged = nil
      return longest_waiting(c, request, eligible_key, 'seen') or head
    end
    return by_age(c, request, eligible_key, head, score)
  end
end

-- Reports whether an execution that becomes ready may be leased at once although others wait, the first with the score `urgent`.
-- It counts as a claim like any other: when it is the turn of the execution that has waited longest, that one comes first.
function claim_order.may_pass(c, request, core, urgent)
  local score = record.eligible_score(core)
  if urgent < score or order.is_fair(c, request.lane) then return false end
  if not is_aged(c, request.lane, 'claims', score) then return true end
  request.aged = true
  return false
end

-- Removes the data of a lane that contains no executions.
function claim_order.forget(c, lane) redis.call('UNLINK', key.ffx_order(c, lane)) end

-- Core fields that a change of priority reads.
local PRIORITY_FIELDS = {
  'lifecycle_phase', 'eligibility_state', 'created_at', 'priority', 'lane_id', 'current_lane', 'managed', 'fair_key', 'wait',
  'terminal_outcome', 'current_lease_epoch', 'current_attempt_id', 'ownership_state', 'limits', 'admission', 'child_flow_id',
  'child_outcome',
}

-- Maximum number of members that one call changes.
local CHANGED_PER_CALL = 200

-- Records the effects of a change of priority in other partitions: the queue of a limit, the run of a node.
local function note_further(c, execution_id, core, further)
  further.candidates[#further.candidates + 1] = limit_admission.waiting(c, execution_id, core)
  if core.child_flow_id and not core.child_outcome then further.children[#further.children + 1] = { core.child_flow_id } end
end

-- Changes the priority of an execution that has not ended. Reports whether it had another one, and returns the error reply when
-- it cannot have one.
local function set_priority(c, execution_id, priority, further)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, PRIORITY_FIELDS)
  if not core then return false, reply.err('execution_not_found') end
  if core.lifecycle_phase == 'terminal' then return false, reply.not_active(core) end
  if core.wait then return false end
  local changes = core.priority ~= priority
  core.priority = priority
  note_further(c, execution_id, core, further)
  if not changes then return false end
  record.set(core_key, 'priority', priority, 'last_mutation_at', c.now_text)
  if core.lifecycle_phase == 'runnable' and core.eligibility_state == 'eligible_now' then
    local lane = record.lane(core)
    order.enter(c, lane, execution_id, core)
    wake.entered(c, lane, core)
  end
  return true
end

-- @record child_run flow_id:flow_id

-- @function ffx_set_priority
-- @summary  Changes the priority of the nodes of a run that have not ended, or of one of them, in any state of waiting; a running
--           node keeps it for its next attempt. Without an execution, it is also the priority of nodes that the run gets later. A
--           bounded number per call: continue with next_cursor until it is empty. `candidates` wait for a place under a limit and
--           must request it again, with their new scores; `children` are the runs of those nodes that have not ended.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      execution_id       execution_id optional
-- @arg      priority           int
-- @arg      cursor             text optional
-- @reply    OK changed:int next_cursor:text candidates:list(candidate) children:list(child_run)
-- @error    invalid_input message:text
-- @error    flow_not_found
-- @error    flow_already_terminal
-- @error    execution_not_found
-- @error    execution_not_active terminal_outcome:text lease_epoch:text lifecycle_phase:text attempt_id:text
function F.ffx_set_priority(K, A)
  local priority, err = number.priority('priority', A.priority)
  if err then return err end
  local text = number.text(priority)
  local c = call.open(K.partition)
  local flow_key = key.flow_core(c, A.flow_id)
  local flow = record.read(flow_key, { 'public_flow_state' })
  if not flow then return reply.err('flow_not_found') end
  if flow_record.is_over(flow) then return reply.err('flow_already_terminal') end
  local changed, cursor, further = 0, '0', { candidates = {}, children = {} }
  if is_set(A.execution_id) then
    if not member_list.has(c, A.flow_id, A.execution_id) then
      return reply.err('execution_not_found')
    end
    local is_changed
    is_changed, err = set_priority(c, A.execution_id, text, further)
    if err then return err end
    if is_changed then changed = 1 end
  else
    if not is_set(A.cursor) then redis.call('HSET', flow_key, 'priority', text) end
    local page
    page, cursor = member_list.page(c, A.flow_id, is_set(A.cursor) and A.cursor or '0', CHANGED_PER_CALL)
    for _, execution_id in ipairs(page) do
      if set_priority(c, execution_id, text, further) then changed = changed + 1 end
    end
  end
  wake.flush(c)
  return reply.ok(number.text(changed), cursor == '0' and '' or cursor, further.candidates, further.children)
end
