-- Returns waits to clients: the waits of a run, the waits of all runs, and one with the signals that it has received.

local LISTED = { 'state', 'waitpoint_key', 'created_at', 'activated_at', 'expires_at', 'closed_at', 'close_reason',
  'step', 'signal_count', 'about', 'execution_id', 'timer' }

-- Core fields of an execution whose waitpoints are described.
local CORE = { 'lifecycle_phase', 'node', 'flow_id', 'managed', 'wait', 'namespace', 'current_waitpoint_id' }

-- Returns timeout behaviour, escalation and suspension of the wait that a waitpoint belongs to, if it is the current one.
local function wait_of(c, execution_id, waitpoint_id)
  local s = record.read(key.exec_suspension(c, execution_id),
    { 'waitpoint_id', 'timeout_at', 'timeout_behavior', 'reason_code' })
  if not s or s.waitpoint_id ~= waitpoint_id then return {} end
  s.escalated = s.reason_code == 'waiting_for_operator_review'
  return s
end

local function is_open(w, core)
  return w.state == 'pending' and core.lifecycle_phase ~= 'terminal' or w.state == 'active'
end

-- Returns a waitpoint with its record in the order of the record listed_waitpoint.
local function describe(c, execution_id, core, waitpoint_id, w)
  local s = wait_of(c, execution_id, waitpoint_id)
  local state = condition.read(key.waitpoint_condition(c, waitpoint_id))
    or { matchers = {}, satisfied = tonumber(w.signal_count) or 0, minimum = 0, mode = 'any' }
  -- Only the stream of early signals shows how many there are for a wait that has not begun.
  if w.state == 'pending' then state.satisfied = redis.call('XLEN', key.waitpoint_signals(c, waitpoint_id)) end
  local text = ''
  if is_open(w, core) and not w.timer then
    text = waitpoint_token.mint(key.waitpoint_secrets(c), waitpoint_id, w.waitpoint_key or '', w.created_at or '') or ''
  end
  return {
    execution_id, core.node or '', w.step or '', waitpoint_id, w.waitpoint_key or '', w.state, w.created_at or '',
    w.activated_at or '', s.timeout_at or w.expires_at or '', s.timeout_behavior or '', s.escalated and '1' or '0',
    condition.names(state), state.mode, #state.matchers > 0 and number.text(condition.needed(state)) or '0',
    number.text(state.satisfied), state.distinct and '1' or '0', w.closed_at or '', w.close_reason or '', text,
    wait.about_text(key.exec_core(c, execution_id), core, w) or '', w.timer or '0', condition.names(state, true),
  }
end

-- Maximum number of members that are read in one call.
local MEMBERS_PER_CALL = 128

-- @record listed_waitpoint execution_id:execution_id node:text step:text waitpoint_id:waitpoint_id waitpoint_key:text state:text created_at:unix_ms activated_at:unix_ms timeout_at:unix_ms timeout_behavior:text escalated:bool signals:list(text) match_mode:text needed:int received:int distinct:bool closed_at:unix_ms close_reason:text waitpoint_token:text about:json? timer:bool? decisive:list(text)?

-- Returns the run that a member waits for, or nil.
local function child_of(c, execution_id)
  local core = record.read(key.exec_core(c, execution_id), { 'child_flow_id', 'child_outcome', 'lifecycle_phase' })
  return core and core.lifecycle_phase ~= 'terminal' and not core.child_outcome and core.child_flow_id
end

-- @function ffx_list_waitpoints
-- @summary  Returns waitpoints of a flow, in pages and in no particular order: the open ones, or with `all` the closed ones as
--           well. An empty list of signals means that every signal counts. Tokens are made with the current secret, so they
--           outlive its rotation; closed waitpoints have none. Pending ones need 0 signals, as the number is not known yet.
--           `children` are the open child runs of nodes of the page; their waitpoints are their own.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      flow_id            flow_id
-- @arg      all                bool
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text waitpoints:list(listed_waitpoint) children:list(flow_id)?
-- @error    flow_not_found
-- @error    invalid_input message:text
function F.ffx_list_waitpoints(K, A)
  if is_set(A.cursor) and not string.match(A.cursor, '^s?%d+$') then
    return reply.err('invalid_input', 'cursor must be a number, got: ' .. A.cursor)
  end
  local c = call.open(K.partition)
  if record.exists(key.flow_core(c, A.flow_id)) == 0 then return reply.err('flow_not_found') end
  local page, cursor = member_list.page(c, A.flow_id, is_set(A.cursor) and A.cursor or '0', MEMBERS_PER_CALL)
  local list, children = {}, {}
  for _, execution_id in ipairs(page) do
    local ids = redis.call('SMEMBERS', key.exec_waitpoints(c, execution_id))
    local core = #ids > 0 and record.read(key.exec_core(c, execution_id), CORE) or {}
    for _, waitpoint_id in ipairs(ids) do
      local w = record.read(key.waitpoint_record(c, waitpoint_id), LISTED)
      if w and (A.all == '1' or is_open(w, core)) then
        list[#list + 1] = describe(c, execution_id, core, waitpoint_id, w)
      end
    end
    children[#children + 1] = child_of(c, execution_id) or nil
  end
  return reply.ok(cursor == '0' and '' or cursor, list, children)
end

-- Maximum numbers of waits that one call returns and checks.
local MAX_PAGE = 200
local LOOKED_AT = 500

local RUN_FIELDS = { 'flow_kind', 'run_id', 'namespace', 'created_at', 'purging' }

-- @record waiting_run flow_id:flow_id flow_name:text run_id:text created_at:unix_ms tags:pairs

-- Returns the run of an execution if a search selects it, or nil.
local function run_of(c, q, core)
  local run = record.read(key.flow_core(c, core.flow_id or ''), RUN_FIELDS)
  if not run or not run.run_id or run.purging then return nil end
  if is_set(q.namespace) and run.namespace ~= q.namespace or is_set(q.flow_name) and run.flow_kind ~= q.flow_name then return nil end
  local tags_key = key.flow_tags(c, core.flow_id)
  for i = 1, #q.tags, 2 do
    if redis.call('HGET', tags_key, q.tags[i]) ~= q.tags[i + 1] then return nil end
  end
  return { core.flow_id, run.flow_kind or '', run.run_id, run.created_at or '', redis.call('HGETALL', tags_key) }
end

local function is_among(list, wanted)
  if type(list) ~= 'table' then return false end
  for _, name in ipairs(list) do
    if name == wanted then return true end
  end
  return false
end

-- Returns the wait that an execution of the index is in, and its run, or nil when it is not wanted.
local function found(c, q, execution_id)
  local core_key = key.exec_core(c, execution_id)
  local core = record.read(core_key, CORE)
  if not core or core.lifecycle_phase ~= 'suspended' or not core.managed or not is_set(core.current_waitpoint_id) then return nil end
  local w = record.read(key.waitpoint_record(c, core.current_waitpoint_id), LISTED)
  if not w or w.state ~= 'active' or w.timer then return nil end
  if is_set(q.audience) and not is_among(wait.about(core_key, core, w).audience, q.audience) then return nil end
  local run = run_of(c, q, core)
  if not run then return nil end
  return run, describe(c, execution_id, core, core.current_waitpoint_id, w)
end

-- Returns executions of an index by rank, with their times.
local function page_of(list_key, from, to, newest_first)
  if newest_first then return redis.call('ZRANGE', list_key, from, to, 'REV', 'WITHSCORES') end
  return redis.call('ZRANGE', list_key, from, to, 'WITHSCORES')
end

-- Returns the index of an order, or nil.
local function index_of(c, name)
  if name == 'opened' then return key.ffx_open_waits(c) end
  return name == 'due' and key.index_suspension_timeout(c) or nil
end

-- @function ffx_list_waits
-- @summary  Returns open waits of all runs in one partition, with their runs, in the order `opened` (the longest wait first) or
--           `due` (those with a timeout, the next one first), or the other way round with `newest_first`: of a flow, with certain
--           tags of the run, of an audience, at `after` or later and `before` or earlier in the order's time. With `behind_id`,
--           returns the waits after the execution with that id at `after`, or `before` when the newest come first. Checks a bounded number of waits and may return fewer than there are: while `more`, continue after
--           `next_at` and `next_id`. The tags are names and values in turn. Waitpoints that are opened ahead of their wait are
--           not among them.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      order              text
-- @arg      newest_first       bool
-- @arg      limit              int
-- @arg      namespace          text optional
-- @arg      flow_name          text optional
-- @arg      audience           text optional
-- @arg      after              unix_ms optional
-- @arg      before             unix_ms optional
-- @arg      behind_id          text optional
-- @args     tags               text
-- @reply    OK more:bool runs:list(waiting_run) waits:list(listed_waitpoint) next_at:unix_ms? next_id:text?
-- @error    invalid_input message:text
function F.ffx_list_waits(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local after, before
  after, err = number.optional('after', A.after, nil)
  if err then return err end
  before, err = number.optional('before', A.before, nil)
  if err then return err end
  if #A.tags % 2 ~= 0 then return reply.err('invalid_input', 'tags must be pairs of a name and a value') end
  local c = call.open(K.partition)
  local list_key = index_of(c, A.order)
  if not list_key then return reply.err('invalid_input', 'order must be opened or due, got: ' .. A.order) end
  limit = math.max(1, math.min(limit, MAX_PAGE))
  local newest_first = A.newest_first == '1'
  local start = after
  if newest_first then start = before end
  local rank = run_list.rank_behind(list_key, start, A.behind_id, not newest_first)
  local page = page_of(list_key, rank, rank + LOOKED_AT - 1, newest_first)
  local runs, waits = {}, {}
  for i = 1, #page, 2 do
    local at = tonumber(page[i + 1])
    if newest_first and after and at < after or not newest_first and before and at > before then
      return reply.ok('0', runs, waits)
    end
    local run, described = found(c, A, page[i])
    if run then runs[#runs + 1], waits[#waits + 1] = run, described end
    if #waits == limit then return reply.ok('1', runs, waits, page[i + 1], page[i]) end
  end
  if #page < 2 * LOOKED_AT then return reply.ok('0', runs, waits) end
  return reply.ok('1', runs, waits, page[#page], page[#page - 1])
end

-- Maximum number of signals of a reply, and the bytes of payloads after which it ends.
local SIGNALS_PER_CALL = 100
local PAYLOADS_PER_CALL = 262144

-- @record received_signal signal_id:signal_id signal_name:text signal_category:text source_type:text source_identity:text correlation_id:text accepted_at:unix_ms counts:bool payload:bytes<signal>

-- Returns signals of a waitpoint in the order of their arrival, after an entry of its stream, and the entry after which to
-- continue; empty at the end.
local function received(c, waitpoint_id, cursor)
  local entries = redis.call('XRANGE', key.waitpoint_signals(c, waitpoint_id), is_set(cursor) and '(' .. cursor or '-', '+',
    'COUNT', SIGNALS_PER_CALL)
  local list, bytes = {}, 0
  for i, entry in ipairs(entries) do
    local signal_id = entry[2][2]
    local s = record.read(key.signal_record(c, signal_id), { 'signal_name', 'signal_category', 'source_type', 'source_identity',
      'correlation_id', 'accepted_at', 'observed_effect' })
    if s then
      local payload = redis.call('GET', key.signal_payload(c, signal_id)) or ''
      bytes = bytes + #payload
      list[#list + 1] = { signal_id, s.signal_name or '', s.signal_category or '', s.source_type or '', s.source_identity or '',
        s.correlation_id or '', s.accepted_at or '', select(2, signal.told(s.observed_effect)), payload }
    end
    if bytes >= PAYLOADS_PER_CALL and i < #entries then return list, entry[1] end
  end
  return list, #entries == SIGNALS_PER_CALL and entries[#entries][1] or ''
end

-- @function ffx_read_waitpoint
-- @summary  Returns one waitpoint with its run. With its token, for the holder of that; a token that does not belong to this
--           waitpoint of this execution is invalid_token, whatever is wrong with it. Without one, for operators: the reply also
--           has the received signals, in the order of their arrival and in pages; continue with next_cursor until it is empty.
--           The execution of another namespace or flow than the given ones counts as missing.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      execution_id       execution_id
-- @arg      waitpoint_id       waitpoint_id
-- @arg      waitpoint_token    text optional
-- @arg      namespace          namespace optional
-- @arg      flow_id            flow_id optional
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text runs:list(waiting_run) waits:list(listed_waitpoint) signals:list(received_signal)
-- @error    invalid_token
-- @error    execution_not_found
-- @error    waitpoint_not_found
-- @error    invalid_input message:text
function F.ffx_read_waitpoint(K, A)
  if is_set(A.cursor) and not string.match(A.cursor, '^%d+%-%d+$') then
    return reply.err('invalid_input', 'cursor must be that of a reply, got: ' .. A.cursor)
  end
  local c = call.open(K.partition)
  local w = record.read(key.waitpoint_record(c, A.waitpoint_id), LISTED) or {}
  local core = record.read(key.exec_core(c, A.execution_id), CORE)
  local has_token = is_set(A.waitpoint_token)
  if has_token then
    local code = waitpoint_token.check(c, key.waitpoint_secrets(c), A.waitpoint_token, A.waitpoint_id, w.waitpoint_key or '',
      w.created_at or '')
    if code or not core or w.execution_id ~= A.execution_id then return reply.err('invalid_token') end
  elseif not core or not wait.belongs(core, A) then
    return reply.err('execution_not_found')
  elseif w.execution_id ~= A.execution_id then
    return reply.err('waitpoint_not_found')
  end
  local run = run_of(c, { tags = {} }, core)
  if not run then return reply.err(has_token and 'invalid_token' or 'execution_not_found') end
  local signals, cursor = {}, ''
  if not has_token then signals, cursor = received(c, A.waitpoint_id, A.cursor) end
  return reply.ok(cursor, { run }, { describe(c, A.execution_id, core, A.waitpoint_id, w) }, signals)
end
