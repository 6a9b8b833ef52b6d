-- The journal of an execution: the steps that its function has recorded and the results of its waits, for the next run
-- of the function. The core field `journal` holds its size, and is missing while it is empty.

-- Maximum number of entries of one execution, maximum size (bytes) of one recorded step, and of all steps together.
local MAX_ENTRIES = 256
local MAX_ENTRY_BYTES = 1048576
local MAX_BYTES = 16777216
local MAX_STEP_BYTES = 256

-- Bytes that an entry takes in addition to its name and value.
local ENTRY_OVERHEAD = 32

-- A claim does not return a larger journal; the worker reads it with ffx_read_journal.
local MAX_INLINE_BYTES = 1048576

-- Returns the error reply for an invalid step name, or nil.
function journal.check_step(step)
  if is_set(step) and #step <= MAX_STEP_BYTES then return nil end
  return reply.err('invalid_input', 'the name of a step must have 1 to ' .. MAX_STEP_BYTES .. ' bytes, got: ' .. #(step or ''))
end

-- Returns the entry with a name, or nil.
function journal.get(c, execution_id, core, entry)
  return core.journal and redis.call('HGET', key.exec_journal(c, execution_id), entry) or nil
end

-- Entries that are not steps of the function: the state with which it was continued, and the plan that it has returned.
local CARRIED, PLAN = 'carried', 'once::plan'

local function is_opened(entry) return string.sub(entry, 1, 5) == 'open:' end

-- Reports whether one more entry is too many. Waitpoints that are opened ahead are counted separately, so that signals to waits
-- that never begin take no entries from the function.
local function is_full(journal_key, opens)
  if redis.call('HLEN', journal_key) < MAX_ENTRIES then return false end
  local count = 0
  for _, entry in ipairs(redis.call('HKEYS', journal_key)) do
    if entry ~= CARRIED and entry ~= PLAN and is_opened(entry) == opens then count = count + 1 end
  end
  return count >= MAX_ENTRIES
end

-- Returns an error reply when one more entry with a value of that size does not fit; nil when it does. `opens`: the entry is a
-- waitpoint that is opened ahead.
function journal.check_room(c, execution_id, core, bytes, opens)
  if bytes > MAX_ENTRY_BYTES then
    return reply.err('journal_full', 'a step may record at most ' .. MAX_ENTRY_BYTES .. ' bytes, got: ' .. bytes)
  end
  if not core.journal then return nil end
  if tonumber(core.journal) + bytes > MAX_BYTES then
    return reply.err('journal_full', 'the steps of an execution may record at most ' .. MAX_BYTES .. ' bytes together')
  elseif is_full(key.exec_journal(c, execution_id), opens == true) then
    return reply.err('journal_full', 'an execution has at most ' .. MAX_ENTRIES .. (opens and ' opened waitpoints' or ' steps and waits'))
  end
  return nil
end

-- Adds an entry. Only the id of a waitpoint may replace another one, which has its length.
function journal.put(c, execution_id, core_key, entry, value)
  if redis.call('HSET', key.exec_journal(c, execution_id), entry, value) == 1 then
    record.add(core_key, 'journal', #entry + #value + ENTRY_OVERHEAD)
  end
end

-- Closes the waitpoints that were opened ahead of waits which never began, because no wait will use them.
local function close_opened(c, journal_key)
  for _, entry in ipairs(redis.call('HKEYS', journal_key)) do
    if is_opened(entry) then
      local id = redis.call('HGET', journal_key, entry)
      local waitpoint_key = key.waitpoint_record(c, id)
      if redis.call('HGET', waitpoint_key, 'state') == 'pending' then
        suspension_record.close(c, { waitpoint = waitpoint_key, condition = key.waitpoint_condition(c, id) }, 'replayed')
        redis.call('ZREM', key.index_pending_waitpoint_expiry(c), id)
      end
    end
  end
end

-- Deletes the journal of an execution that has succeeded and runs again, so that it repeats all its work. An execution that has
-- not succeeded continues with its journal.
function journal.forget(c, execution_id)
  local journal_key = key.exec_journal(c, execution_id)
  close_opened(c, journal_key)
  redis.call('DEL', journal_key, key.exec_past(c, execution_id), key.exec_past_before(c, execution_id))
  local core_key = key.exec_core(c, execution_id)
  record.clear(core_key, 'journal', 'generation')
  local signals = redis.call('ZCARD', key.exec_signals(c, execution_id))
  if signals > 0 then record.set(core_key, 'spent_signals', number.text(signals)) end
end

-- Returns the error reply for a state that is too large for a function to continue with, or nil.
function journal.check_state(state)
  if #state <= MAX_ENTRY_BYTES then return nil end
  return reply.err('journal_full', 'a state may have at most ' .. MAX_ENTRY_BYTES .. ' bytes, got: ' .. #state)
end

-- Restarts the journal of an execution that continues as new: it contains the carried state, with the number of the generation,
-- and the entries of waitpoints that are kept: names and ids in turn.
function journal.restart(c, execution_id, core_key, generation_number, state, entries)
  redis.call('DEL', key.exec_journal(c, execution_id))
  record.clear(core_key, 'journal')
  journal.put(c, execution_id, core_key, CARRIED, number.text(generation_number) .. ' ' .. state)
  for i = 1, #entries, 2 do journal.put(c, execution_id, core_key, entries[i], entries[i + 1]) end
end

-- Returns names and values in turn as a list of entries.
function journal.entries(flat)
  local entries = {}
  for i = 1, #flat, 2 do entries[#entries + 1] = { flat[i], flat[i + 1] } end
  return entries
end

-- Returns the entries that a claim returns, and whether these are all.
function journal.inline(c, execution_id, core)
  if not core.journal then return {}, true end
  if tonumber(core.journal) > MAX_INLINE_BYTES then return {}, false end
  return journal.entries(redis.call('HGETALL', key.exec_journal(c, execution_id))), true
end
