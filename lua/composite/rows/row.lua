-- The nodes of a run, as rows of one string: a header, the course of the run, and a row of fixed width for each node, in the
-- order of the graph. A call loads the rows that it needs, changes them in memory, and writes the changes when it ends.
--
-- The course is the order of the events that follow from rows (see row_log), in two bytes for each: the ordinal of the node times
-- two, plus one for its success, and else for its start. A run of one node has none, because only one order is possible.
--
-- The id of a run is a UUID of version 8 whose last four digits are zero. The id of an execution has the ordinal of its node in
-- their place, from 1 on: both contain the place of the row.

-- @row      run_head  The header of the rows of a run
-- @column   form      byte      =2 form of the string
-- @column   origin    text(8)   origin of the process that started the run and receives its end; 8 times `-` is none
-- @column   watched   byte      1 if other processes have waited for its end
-- @column   ends      short     of a child run: how often it has ended
-- @column   told      short     of a child run: the number of the last end of which its node was notified
-- @column   state     state     `public_flow_state`
-- @values   state     open completed failed cancelled
-- @column   outcome   state     `outcome`
-- @values   outcome   none success failed cancelled expired
-- @column   ended     time      `closed_at`; 0 while the run is open
-- @column   count     short     number of nodes
-- @column   listed    micros    time of its entry in the lists of runs
-- @column   created   time      creation of the run
-- @column   deadline  time      `deadline_at`; 0 is none
-- @column   class     text(8)   id of the run's class
-- @column   marks     flags     further properties of the run
-- @bit      marks     judged    a node of it has ended without success, unless its join no longer needed it
-- @bit      marks     children  a node of it has started a run
-- @bit      marks     keyed     it has a place under a key, which its end frees
-- @bit      marks     child     it belongs to a node of another run
-- @column   closed    micros    time of its entry in the list of runs that are over; 0 while it is open
-- @column   flags     flags     properties of the run
-- @bit      flags     extended  nodes or edges have been added by the contract's calls
-- @bit      flags     replayed  a node was replayed, so an edge may be resolved again
-- @bit      flags     purging   the run is being purged
-- @bit      flags     plain     the run is open, not paused, neither extended nor replayed, and has only the joins of its graph
-- @bit      flags     fair      the run has a key by which it shares lanes
-- @bit      flags     special   the run has budgets, or belongs to a node
-- @bit      flags     input     the input of the run follows the rows
-- @bit      flags     overlay   the run has fields in the hash of a flow's record
-- @column   open      long      number of nodes that have not ended; not kept up to date in small plain runs
-- @column   events    short     number of the events so far; 65535 when they are in the event log
-- @piece    begun     marks closed flags open events
-- @piece    first     form origin watched ends told state outcome ended count
-- @piece    over      state outcome ended
-- @piece    pending   count listed..class marks closed flags open events
-- @piece    single    count listed..created deadline class marks closed flags open events
-- @piece    standing  closed flags open events
-- @piece    end       closed flags open
-- @piece    identity  listed created deadline class
-- @piece    waiters   origin watched
-- @piece    tail      flags open events

-- @row      node_row  The row of a node
-- @beside   run ordinal was
-- @column   phase     state     `lifecycle_phase`
-- @values   phase     runnable active suspended terminal
-- @column   owner     state     `ownership_state`
-- @values   owner     unowned leased lease_expired_reclaimable lease_revoked
-- @column   elig      state     `eligibility_state`
-- @values   elig      eligible_now not_eligible_until_time blocked_by_dependencies blocked_by_budget blocked_by_quota
--                     blocked_by_route blocked_by_operator blocked_by_lane_state not_applicable
-- @column   why       state     `blocking_reason`
-- @values   why       none waiting_for_worker waiting_for_delay waiting_for_retry_backoff waiting_for_resume_delay
--                     waiting_for_children waiting_for_budget waiting_for_quota waiting_for_capable_worker
--                     waiting_for_signal waiting_for_approval waiting_for_callback waiting_for_tool_result
--                     paused_by_operator paused_by_policy waiting_for_locality_match paused_by_flow_cancel
--                     waiting_for_decoder
-- @column   outcome   state     `terminal_outcome`
-- @values   outcome   none success failed cancelled expired skipped
-- @column   attempt   state     `attempt_state`
-- @values   attempt   none pending_first_attempt running_attempt attempt_interrupted pending_retry_attempt
--                     pending_replay_attempt attempt_terminal
-- @column   public    state     `public_state`
-- @values   public    waiting delayed rate_limited waiting_children active suspended completed failed cancelled expired
--                     skipped
-- @column   flags     flags     properties of the node
-- @bit      flags     more      it has fields in the hash `more`
-- @bit      flags     recorded  its current attempt has a separate record
-- @bit      flags     leased    its lease is shown
-- @bit      flags     other_attempt  the id of its attempt does not follow from the lease, and is in `more`
-- @bit      flags     untold    it ended when its run was over, so the nodes that depend on it were not notified
-- @bit      flags     ahead     it was leased for the first time before it had its places under its limits
-- @bit      flags     retried   an attempt of it has failed since it was created: the last failure is in the hash `more`
-- @column   index     short     index of the current attempt; 65535 is none
-- @column   total     short     attempts
-- @column   retries   short     retries
-- @column   reclaims  byte      take-overs from lost workers
-- @column   epoch     long      lease epoch
-- @column   open      short     edges that lead to the node and are open
-- @column   told      short     edges that lead on from the node and are resolved, in the order of the graph
-- @column   expires   time      end of the lease
-- @column   acquired  time      start of the lease
-- @column   started   time      first start, since it was last run again
-- @column   worker    long      number of the worker that runs the node, or has completed it; 0 is none
-- @column   ended     time      end
-- @column   changed   time      last transition; 0 is the creation of the run
-- @column   lease     text(36)  lease id; 36 times `-` is none, 36 times `+` one of another length, which is in `more`
-- @piece    waits_for phase..epoch open
-- @piece    held      phase..told expires acquired..worker ended changed lease
-- @piece    tried     phase owner elig why outcome attempt public flags index total retries reclaims epoch open told
-- @piece    happened  started worker ended
-- @piece    ran       expires acquired started worker

local HEAD_BYTES, ROW_BYTES = run_head.BYTES, node_row.BYTES

row.NO_ORIGIN = '--------'
row.NO_ATTEMPT = 65535
row.NO_CLASS = '--------'
row.NO_LEASE = '------------------------------------'
-- Stored in place of the number of a run's events when they are in the event log.
row.LOGGED = 65535
-- Stored in place of a lease whose id has another length than this library's ids.
row.OTHER_LEASE = '++++++++++++++++++++++++++++++++++++'

function row.is_extended(run) return run.flags % 2 == 1 end
function row.is_replayed(run) return run.flags % 4 >= 2 end
function row.is_purging(run) return run.flags % 8 >= 4 end
function row.is_plain(run) return run.flags % 16 >= 8 end
function row.is_fair(run) return run.flags % 32 >= 16 end
function row.is_special(flags) return flags % 64 >= 32 end
function row.has_input(flags) return flags % 128 >= 64 end
function row.has_overlay(run) return run.flags >= 128 end
function row.is_judged(run) return run.marks % 2 == 1 end
function row.has_children(run) return run.marks % 4 >= 2 end

-- States for which lanes count their nodes: active, and waiting for upstreams; 0 is every other one. They are listed by the phase
-- of a row and its eligibility, with the phase times sixteen.
row.COUNTED_ACTIVE, row.COUNTED_WAITING = 1, 2
row.COUNTED = {}
for state = 0, 255 do row.COUNTED[state] = state >= 32 and state < 48 and 1 or state == 19 and 2 or 0 end

-- @hook Runs when rows of a run are written with another phase or eligibility than they were read with (`was`, as in row.COUNTED,
-- which is then set to the written one).
function row.on_counted(run, changed) end

-- Returns the row at a place of a string.
local function row_at(bytes, from, run, ordinal)
  local r = node_row.read(bytes, from, run, ordinal)
  r.was = r.phase * 16 + r.elig
  if r.changed == 0 then r.changed = run.created end
  return r
end

-- Returns the initial row of a node that waits for `open` upstreams, or of an eligible one. Its last transition is the creation
-- of the run, which is not in the row.
function row.initial(open)
  local waits = open > 0
  return node_row.pack({
    phase = 1, owner = 1, elig = waits and 3 or 1, why = waits and 6 or 2, outcome = 1, attempt = 2, public = waits and 4 or 1, flags = 0,
    index = row.NO_ATTEMPT, total = 0, retries = 0, reclaims = 0, epoch = 0, open = open, told = 0, expires = 0, acquired = 0, started = 0,
    ended = 0, changed = 0, worker = 0, lease = row.NO_LEASE,
  })
end

-- The runs that the call has loaded, by their ids, and the rows, by the last part of the ids of their executions; false for
-- missing ones. Rows that were found by the keys of their records are also kept by those.
local runs, rows, by_key = {}, {}, {}
local held = call.held

-- Whether the call removes runs: for others, the nodes of a run that is being purged do not exist.
local removes = false

-- Marks the call as one that removes runs.
function row.begin_removal() removes, held.rows = true, true end

-- From now on, no rows are loaded.
function row.forget()
  removes = false
  if next(runs) then runs, rows, by_key = {}, {}, {} end
end

-- Maximum number of nodes of a small run, which the first read includes completely. The header does not contain the number of
-- open nodes of a small plain run that has only the nodes of its graph, none of them replayed, because the rows do. So a node
-- that succeeds does not write the header unless it is the last.
local SMALL_RUN = 10
row.SMALL_RUN = SMALL_RUN

-- The phase of a node that has ended, as a number in rows.
local TERMINAL = 4

-- Returns how many bytes are before the row of a node of a run with `count` nodes.
function row.place(count, ordinal) return HEAD_BYTES + (count > 1 and 4 * count or 0) + (ordinal - 1) * ROW_BYTES end

-- The last byte that the first read of a run includes: for a small run, all of it. The server's interpreter processes all bytes
-- of each text that it makes, so that more would take longer than another command.
row.LAST_OF_FIRST_READ = row.place(SMALL_RUN, SMALL_RUN + 1) - 1

-- Returns the course of a run in which nothing has happened.
function row.first_course(count) return count > 1 and string.rep('\0', 4 * count) or '' end

-- Returns the start or the success of a node, as the course of its run contains it.
function row.started(ordinal) return struct.pack('<H', 2 * ordinal) end
function row.succeeded(ordinal) return struct.pack('<H', 2 * ordinal + 1) end

-- Returns the header of a run whose nodes wait or may run.
local function new_head(count, flags, created, deadline, class_id, listed, origin)
  return {
    origin = origin, watched = 0, ends = 0, told = 0, state = 1, outcome = 1, ended = 0, count = count, listed = listed, created = created,
    deadline = deadline, class = class_id, marks = 0, closed = 0, flags = flags, open = count, events = 1, first = nil, noted = nil, is_new = true,
    at = nil, prefix = nil, tag = nil, id = nil, key = nil, stem = nil, rows = nil, dirty = nil, bytes = nil,
  }
end

-- Makes a header the run of the call. `at` is the place of the partition (see call.open), false where only a key of the run is
-- known.
local function adopt(run, at, prefix, tag, id, nodes_key, bytes)
  run.at, run.prefix, run.tag, run.id, run.key, run.stem = at, prefix, tag, id, nodes_key, tag .. ':' .. string.sub(id, 1, 32)
  run.rows, run.dirty, run.bytes, run.first = {}, {}, bytes, row.place(run.count, 1)
  return run
end

-- Returns the key of the hash with those fields of a run's record that have no other place.
function row.overlay_key(run) return run.prefix .. ':flow:' .. run.tag .. ':' .. run.id .. ':core' end

-- Returns the key of the hash with the results of a run.
function row.results_key(run) return run.prefix .. ':flow:' .. run.tag .. ':' .. run.id .. ':results' end

-- Returns the key of the hash `more` of a run, which few calls need.
function row.more_key(run)
  local more_key = run.more_key
  if not more_key then
    more_key = run.prefix .. ':flow:' .. run.tag .. ':' .. run.id .. ':more'
    run.more_key = more_key
  end
  return more_key
end

local function load_run(at, prefix, tag, id, nodes_key)
  local bytes = redis.call('GETRANGE', nodes_key, '0', row.LAST_OF_FIRST_READ)
  if #bytes < HEAD_BYTES then return nil end
  local run = run_head.read(bytes, 1)
  if run.form ~= run_head.FORM then
    error('rows of form ' .. run.form .. ', but this library reads form ' .. run_head.FORM .. ': ' .. nodes_key)
  end
  adopt(run, at, prefix, tag, id, nodes_key, bytes)
  if run.count <= SMALL_RUN and run.flags % 16 == run_head.PLAIN then run.open = nil end
  return run
end

-- Counts the rows of a small run whose nodes have not ended. `bytes`: all of the run.
function row.count_open(bytes, count)
  local open, first = 0, row.place(count, 1)
  for at = first + 1, first + count * ROW_BYTES, ROW_BYTES do
    if string.byte(bytes, at) ~= TERMINAL then open = open + 1 end
  end
  return open
end

-- Returns how many nodes of a run are open.
function row.open(run)
  if not run.open then run.open = row.count_open(run.bytes, run.count) end
  return run.open
end

-- Changes how many nodes of a run are open.
function row.add_open(run, by)
  run.open = row.open(run) + by
  row.touch_run(run)
end

-- Returns the run with an id; nil when there is none, or it does not have rows.
function row.run(c, flow_id)
  if string.byte(flow_id, 15) ~= 56 then return nil end
  local run = runs[flow_id]
  if run == nil then
    run = load_run(c.at, c.at.prefix, c.at.tag, flow_id, key.flow_nodes(c, flow_id)) or false
    runs[flow_id], held.rows = run, true
  end
  return run or nil
end

-- Reports whether the call has loaded a run.
function row.is_loaded(flow_id) return runs[flow_id] ~= nil end

-- Returns the header of the text that the runs of a graph are copies of.
function row.first_head(count) return run_head.pack(new_head(count, 0, 0, 0, row.NO_CLASS, 0, row.NO_ORIGIN)) end

-- Creates a run with the initial course and rows of its nodes: `initial`, or, when that is nil, a copy of the text at `rows_key`.
-- The call's changes to them are written when it ends. `deadline`: Unix ms, 0 for none. `behind`: the bytes after the rows, "" for none.
-- `listed`: the time of its entry in the lists of runs. `origin`: see run_watch.
function row.create(c, flow_id, count, class_id, initial, rows_key, flags, deadline, listed, behind, origin)
  local nodes_key = key.flow_nodes(c, flow_id)
  local run = new_head(count, flags, c.now, deadline, class_id, listed, origin)
  local bytes = run_head.pack(run)
  if initial then
    bytes = bytes .. initial .. behind
    redis.call('SET', nodes_key, bytes)
  else
    if redis.call('COPY', rows_key, nodes_key, 'REPLACE') == 0 then error('the rows of a graph are missing: ' .. rows_key) end
    redis.call('SETRANGE', nodes_key, '0', bytes)
  end
  adopt(run, c.at, c.at.prefix, c.at.tag, flow_id, nodes_key, bytes)
  runs[flow_id], held.rows = run, true
  return run
end

-- Returns the row of a node by its ordinal. The next one, which is usually needed too, is read with it.
function row.at(run, ordinal)
  local r = run.rows[ordinal]
  if r then return r end
  if ordinal < 1 or ordinal > run.count then return nil end
  local bytes, at = run.bytes, run.first + (ordinal - 1) * ROW_BYTES
  if at + ROW_BYTES > #bytes then
    bytes = redis.call('GETRANGE', run.key, at, at + 2 * ROW_BYTES - 1)
    at = 0
    if ordinal < run.count and not run.rows[ordinal + 1] then
      run.rows[ordinal + 1] = row_at(bytes, ROW_BYTES + 1, run, ordinal + 1)
    end
  end
  r = row_at(bytes, at + 1, run, ordinal)
  run.rows[ordinal] = r
  return r
end

-- Loads the rows from one ordinal to another with one command, for calls that visit many.
function row.load(run, from, to)
  local first, last = run.first + (from - 1) * ROW_BYTES, run.first + to * ROW_BYTES - 1
  if last < #run.bytes then return end
  local bytes = redis.call('GETRANGE', run.key, first, last)
  for ordinal = from, to do
    if not run.rows[ordinal] then
      run.rows[ordinal] = row_at(bytes, (ordinal - from) * ROW_BYTES + 1, run, ordinal)
    end
  end
end

-- Distance of the eligibility from the phase of a row, which comes first.
local ELIG = node_row.ELIG_AT - node_row.PHASE_AT

-- Calls a function with the ordinal, phase and eligibility of each row from one ordinal to another, as they are stored.
function row.each_state(run, from, to, visit)
  local first, last = run.first + (from - 1) * ROW_BYTES, run.first + to * ROW_BYTES
  local bytes = last <= #run.bytes and string.sub(run.bytes, first + 1, last) or redis.call('GETRANGE', run.key, first, last - 1)
  for at = 1, #bytes, ROW_BYTES do
    visit(from + (at - 1) / ROW_BYTES, string.byte(bytes, at), string.byte(bytes, at + ELIG))
  end
end

-- Returns the time of creation of a run as text.
function row.created_text(run)
  run.created_text = number.time(run.created)
  return run.created_text
end

-- Ordinals up to 256, as the ids of executions contain them, and the reverse.
local ORDINALS = {}
row.ORDINAL_OF = {}

local function ordinal_text(ordinal)
  local text = string.format('%04x', ordinal)
  if ordinal <= 256 then ORDINALS[ordinal], row.ORDINAL_OF[text] = text, ordinal end
  return text
end

-- Returns the id of the execution of a node.
function row.execution_id(run, ordinal)
  return run.stem .. (ORDINALS[ordinal] or ordinal_text(ordinal))
end

-- Returns the end of the ids of a node's executions.
function row.suffix(ordinal) return ORDINALS[ordinal] or ordinal_text(ordinal) end

-- Returns the ordinal that the id of an execution contains; 0 for ids without a row.
function row.ordinal(execution_id)
  if string.byte(execution_id, -22) ~= 56 then return 0 end
  return tonumber(string.sub(execution_id, -4), 16) or 0
end

-- Returns the id of the run that an execution with a row belongs to.
function row.run_id(execution_id) return string.sub(execution_id, -36, -5) .. '0000' end

-- Returns the row of an execution by its id, in the partition of the call; nil for one without a row.
function row.of(c, execution_id)
  if string.byte(execution_id, -22) ~= 56 then return nil end
  local name = string.sub(execution_id, -36)
  local r = rows[name]
  if r == nil then
    local ordinal = tonumber(string.sub(name, -4), 16)
    local run = ordinal and ordinal > 0 and row.run(c, string.sub(name, 1, 32) .. '0000')
    r = run and (removes or not row.is_purging(run)) and row.at(run, ordinal) or false
    rows[name] = r
  end
  return r or nil
end

-- Returns the run with an id, found by its own key or the key of one of its nodes, whose kind is `kind`.
local function find_run(any_key, kind, id)
  local prefix, tag = string.match(any_key, '^([^:]*):' .. kind .. ':({[^}]*})')
  if not prefix then return nil end
  local run = runs[id]
  if run == nil then
    run = load_run(false, prefix, tag, id, prefix .. ':flow:' .. tag .. ':' .. id .. ':nodes') or false
    runs[id], held.rows = run, true
  end
  return run or nil
end

-- Returns the run for the key of a flow's record; nil for flows without rows, and for other keys.
function row.of_flow_key(flow_key)
  if string.byte(flow_key, -27) ~= 56 or string.sub(flow_key, -9) ~= '0000:core' then return nil end
  return find_run(flow_key, 'flow', string.sub(flow_key, -41, -6))
end

local function find(core_key, name)
  local ordinal = tonumber(string.sub(name, -4), 16)
  if not ordinal or ordinal == 0 then return nil end
  local run = find_run(core_key, 'exec', string.sub(name, 1, 32) .. '0000')
  if not run or row.is_purging(run) and not removes then return nil end
  return row.at(run, ordinal)
end

-- Returns the row for the key of an execution's record; nil for one without a row.
function row.of_key(core_key)
  local known = by_key[core_key]
  if known then return known end
  if string.byte(core_key, -27) ~= 56 or string.sub(core_key, -5) ~= ':core' then return nil end
  local name = string.sub(core_key, -41, -6)
  local r = rows[name]
  if r == nil then
    r = find(core_key, name) or false
    rows[name] = r
  end
  by_key[core_key] = r or nil
  return r or nil
end

-- Marks a row as changed: it is written when the call ends.
function row.touch(r)
  if r.dirty then return end
  r.dirty = true
  local dirty = r.run.dirty
  dirty[#dirty + 1] = r
end

-- Marks the header as changed.
function row.touch_run(run) run.head_dirty = true end

local function by_ordinal(a, b) return a.ordinal < b.ordinal end

-- Sorts the changed rows, which are usually in order already.
local function sort(dirty)
  for i = 2, #dirty do
    if dirty[i].ordinal < dirty[i - 1].ordinal then
      table.sort(dirty, by_ordinal)
      return
    end
  end
end

-- Maximum number of bytes between two changes that are written again unchanged, where the call has read them: that takes less
-- time than another command.
local MAX_GAP = 512

local function pack_head(run)
  row.open(run)
  return run_head.pack(run)
end

-- Adds the header to the texts that are written together, and after it the course of a small run up to the further events
-- `noted`. The header and the events of a large run are written at once. Returns how many texts there are, and where they end.
local function add_head(run, noted, parts)
  run.head_dirty, run.noted = nil, nil
  local head = pack_head(run)
  if not noted or run.count == 1 then
    parts[1] = head
    return 1, HEAD_BYTES
  end
  local at, further = HEAD_BYTES + 2 * (noted.from - 1), table.concat(noted)
  if run.count <= SMALL_RUN then
    parts[1] = head .. string.sub(run.bytes, HEAD_BYTES + 1, at) .. further
    return 1, at + #further
  end
  redis.call('SETRANGE', run.key, 0, head)
  redis.call('SETRANGE', run.key, at, further)
  return 0, 0
end

-- Writes the header, the further events of the course, and the changed rows, with one command where they are close to each other.
local function write_rows(run)
  local dirty, changed, parts, count, from, to = run.dirty, nil, {}, 0, '0', 0
  if run.head_dirty then count, to = add_head(run, run.noted, parts) end
  sort(dirty)
  for i = 1, #dirty do
    local r = dirty[i]
    local at = run.first + (r.ordinal - 1) * ROW_BYTES
    if count > 0 and at > to then
      if at <= #run.bytes and at - to <= MAX_GAP then
        count = count + 1
        parts[count] = string.sub(run.bytes, to + 1, at)
      else
        redis.call('SETRANGE', run.key, from, table.concat(parts))
        parts, count = {}, 0
      end
    end
    if count == 0 then from = at end
    count = count + 1
    parts[count], to, r.dirty = node_row.pack(r), at + ROW_BYTES, nil
    if r.phase * 16 + r.elig ~= r.was then
      changed = changed or {}
      changed[#changed + 1] = r
    end
  end
  if changed then row.on_counted(run, changed) end
  if count == 0 then return end
  redis.call('SETRANGE', run.key, from, table.concat(parts))
  run.dirty = {}
end

-- Sets a field of the hash `more` of a run when the call ends, or unsets it with false.
function row.write_more(run, field, text)
  local writes = run.more_writes
  if not writes then
    writes = { fields = {}, texts = {} }
    run.more_writes = writes
  end
  if writes.texts[field] == nil then writes.fields[#writes.fields + 1] = field end
  writes.texts[field] = text
end

-- Sets the changed fields of the hash `more`, and returns those to unset; nil when there are none.
local function set_more(run)
  local writes = run.more_writes
  if not writes then return nil end
  run.more_writes = nil
  local set, unset = {}, {}
  for _, field in ipairs(writes.fields) do
    local text = writes.texts[field]
    if text then
      set[#set + 1] = field
      set[#set + 1] = text
    else
      unset[#unset + 1] = field
    end
  end
  if #set > 0 then call.chunked('HSET', row.more_key(run), set) end
  return #unset > 0 and unset or nil
end

-- Writes the changes of the call. Fields of `more` that a row needs are written before the row, and fields that it no longer
-- needs are removed after it. Should the server come back with a part of the call, the keeper repairs the rest by the row.
function row.flush()
  for _, run in next, runs, nil do
    if run then
      local unset = set_more(run)
      write_rows(run)
      if unset then call.chunked('HDEL', row.more_key(run), unset) end
    end
  end
end

-- Discards a run that is removed: its changes are no longer written.
function row.drop(run)
  run.dirty, run.head_dirty, run.more_writes, run.noted = {}, nil, nil, nil
  runs[run.id] = false
  rows, by_key = {}, {}
end
