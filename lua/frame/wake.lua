-- Messages to workers, keepers and clients. They are hints: a lost message costs time, never work, because workers and keepers
-- also sweep from time to time. Executions outside of managed flows cause messages where workers or keepers of this project have
-- called: see wake.tells_of_others.

-- Messages to workers: a partition has executions to claim; it has none left; an execution was set aside because the worker that
-- met it cannot run it; a worker serves the lane, or no longer does, which workers send to each other; and a lease has ended. The
-- mark makes messages differ: the library sends its time (ms). The kind states whether the execution was cancelled, exceeded its
-- time (expired), or lost its lease (revoked); the reason of a cancel is any text of a caller. A worker that receives drain takes
-- no more work. The message awaited announces that something waits for the function to return which the next message stops.

-- @message  work    channel.wake,channel.wake_ring work {partition} {mark}
-- @message  none    channel.wake,channel.wake_ring none {partition}
-- @message  aside   channel.wake              aside {partition} {activity}
-- @message  here    channel.wake              here {worker_instance_id}
-- @message  left    channel.wake              left {worker_instance_id}
-- @message  cancel  channel.worker            cancel {execution_id} {lease_id} {kind:word} {reason}
-- @message  drain   channel.worker            drain {worker_instance_id}
-- @message  awaited channel.worker            awaited {execution_id} {lease_id}

-- Message to keepers: something is due in a partition at a time (ms), earlier than all times that they know for it.

-- @message  due     channel.due               {partition:any_partition} {at:unix_ms}

-- Messages among keepers: one runs, with the interval of its messages and the mark that workers also use; and one stops. On the
-- channel of keepers on standby: one follows the messages of the running keepers, to take over, or no longer does.

-- @message  keeper_here channel.keepers,channel.standby_keepers here {keeper_id:word} {heartbeat:ms} {mark?}
-- @message  keeper_gone channel.keepers,channel.standby_keepers gone {keeper_id:word}

-- Messages to clients: a flow is over, with a small result; or it runs again, with the outcome reopened. Each goes to the channel
-- of one process, which has the name of that process, its origin.

-- @message  done    channel.done              {flow_id} {outcome:word} {result?}
-- @frame    many    channel.done              many

-- Sends a message and returns the number of its receivers; nil when it could not be sent, for example without the right to use
-- the channel: a call that has written must not fail half-way for a hint. This is the only place of the library that publishes.
function wake.send(channel, text)
  local heard = redis.pcall('PUBLISH', channel, text)
  if type(heard) == 'number' then return heard end
  return nil
end

-- Additions to lanes are counted separately for the order that partitions share (c.root.lanes) and for a partition's own sets
-- (c.own_lanes).

-- Returns the call's additions to the order of a lane: count and urgent; nil when it has added nothing.
function wake.added(c, lane)
  c = c.root or c
  return c.lanes and c.lanes[lane]
end

local function add(lanes, lane, priority)
  local added = lanes[lane]
  if not added then
    added = { count = 0, urgent = false }
    lanes[lane] = added
  end
  added.count = added.count + 1
  if (tonumber(priority) or 0) > 0 then added.urgent = true end
end

-- Counts a member that was added to the order of a lane.
function wake.eligible(c, lane, priority) add(call.list_in(c.root or c, 'lanes'), lane, priority) end

-- @hook Reports whether messages are sent for executions and flows that are not managed.
function wake.tells_of_others() return false end

-- @hook Records that executions outside of managed flows use a lane, so that keepers promote its delayed executions.
function wake.note_lane(c, lane) end

-- Reports whether changes of an execution or a flow are announced.
function wake.is_announced(core) return core.managed ~= nil or wake.tells_of_others() end

-- Reports whether an execution waits in the order of its lane, and not in a set of its own partition: see order.index.
local function is_ordered(c, core) return core.managed or call.home(c) == c end

-- Counts an execution that was added to the eligible set that order.index names.
function wake.entered(c, lane, core)
  if not wake.is_announced(core) then return end
  if is_ordered(c, core) then
    wake.eligible(c, lane, core.priority)
  else
    add(call.list_in(c, 'own_lanes'), lane, core.priority)
  end
end

-- Uncounts an execution that this call had added and then removed again.
function wake.taken(c, lane, core)
  local added
  if is_ordered(c, core) then added = wake.added(c, lane) else added = c.own_lanes and c.own_lanes[lane] end
  if added and added.count > 0 then added.count = added.count - 1 end
end

-- Records that something of an execution or a flow is due at `at` (ms).
function wake.due_for(c, core, at)
  if wake.is_announced(core) then wake.due(c, at) end
end

-- Records that an execution waits in the delayed set of its lane until `at` (ms).
function wake.delayed(c, lane, core, at)
  if not wake.is_announced(core) then return end
  if not core.managed then wake.note_lane(c, lane) end
  wake.due(c, at)
end

-- Records that something is due at `at` (ms). Every call that enters an item into an index of due times must call this, because
-- keepers are idle until then.
function wake.due(c, at)
  if not c.due_at or at < c.due_at then c.due_at = at end
end

-- A keeper that is this much (ms) later than its last known due time may have missed the message.
local LATE_MS = 1000

-- Notifies keepers that something is due at `at` (ms) in the partition of the call; `family` is the letter of partitions that do
-- not belong to flows. Keepers know the next due time from a message or from the reply of their last call. The server remembers
-- this time for each partition, and sends only earlier ones. It forgets the time when it starts or loads the library, and then
-- sends more messages than necessary.
function wake.tell_keepers(c, family, at)
  local place = c.at
  local known = place.next_visit
  if known and known <= at and known > c.now - LATE_MS then return end
  place.next_visit = at
  wake.send(key.channel_due(c), message.due(family .. call.partition(c), number.text(at)))
end

-- Remembers the next due time `at` (ms) that a keeper receives with the reply of its call in this partition; nil for none.
function wake.visited(c, at) c.at.next_visit = at end

-- Requests the worker that runs an execution to stop it. `kind` is cancelled, expired or revoked.
function wake.cancel(c, worker_instance_id, execution_id, lease_id, kind, reason)
  local cancels = call.list_in(c, 'cancels')
  cancels[#cancels + 1] = { worker_instance_id, message.cancel(execution_id, lease_id or '', kind, reason) }
end

-- Requests the worker that ran an execution, if one did, to stop it. `core` is its state then; with `awaits_release`, something
-- waits until the function has returned.
function wake.stop(c, worker_instance_id, execution_id, core, kind, reason)
  if not is_set(worker_instance_id) or not wake.is_announced(core) then return end
  if core.awaits_release then
    local cancels = call.list_in(c, 'cancels')
    cancels[#cancels + 1] = { worker_instance_id, message.awaited(execution_id, core.current_lease_id) }
  end
  wake.cancel(c, worker_instance_id, execution_id, core.current_lease_id, kind, reason)
end

-- Maximum size of a result (bytes) that the message about the end of a flow contains.
local MAX_DONE_RESULT = 4096

local function tell_done(c, origin, text)
  local finished = call.list_in(c.root or c, 'finished')
  local texts = finished[origin]
  if texts then
    texts[#texts + 1] = text
  else
    finished[#finished + 1], finished[origin] = origin, { text }
  end
end

-- Announces to a process that a flow is over. The message contains a small result when the call has it at hand, so that a waiting
-- client need not read it.
function wake.done(c, origin, flow_id, outcome, result)
  if is_set(result) and #result > MAX_DONE_RESULT then result = nil end
  tell_done(c, origin, message.done(flow_id, outcome, result))
end

-- Announces to a process that a flow which was over runs again, so that its end is still to come.
function wake.reopened(c, origin, flow_id) tell_done(c, origin, message.done(flow_id, 'reopened')) end

-- A wake-up of a lane goes to few of its workers: those that listen to the current slot of the wake ring. A slot lasts SLOT_MS
-- and comes once per round of SLOTS, in another order in every round, so that work that arrives at a steady pace does not always
-- meet the same slots. Workers use the same rule.
local SLOT_MS, SLOTS = 20, 256

-- The number of workers that listen to each slot.
local WOKEN_PER_SLOT = 3

-- Returns the slot of a time (ms).
function wake.slot(at)
  local step = math.floor(at / SLOT_MS)
  local round = math.floor(step / SLOTS) % SLOTS
  return (step % SLOTS * (2 * round + 1) + round) % SLOTS
end

-- Notifies all workers of a lane that there is something to claim. The time makes messages differ: workers use it to find out who
-- answers first. The message names the partition of the eligible set: by default the one that keeps the order of the lane.
function wake.all(c, lane, at)
  wake.send(key.channel_wake(c, lane), message.work(call.partition(at or call.home(c)), c.now_text))
end

-- Notifies the workers of the present slot, or of a given one, that there is something to claim; all workers when this server has
-- no listener to the slot.
function wake.workers(c, lane, slot, at)
  at = at or call.home(c)
  local channel = key.channel_wake_ring(c, number.text(slot or wake.slot(c.now)), lane)
  if wake.send(channel, message.work(call.partition(at), c.now_text)) == 0 then wake.all(c, lane, at) end
end

-- Passes a wake-up on to as many further workers as needed: a worker that was woken at a slot took `taken` executions and left
-- some.
function wake.pass_on(c, lane, slot, taken, at)
  if redis.call('ZCARD', key.lane_eligible(at, lane)) > WOKEN_PER_SLOT * taken then return wake.all(c, lane, at) end
  wake.workers(c, lane, ((tonumber(slot) or 0) + WOKEN_PER_SLOT) % SLOTS, at)
end

-- Notifies the workers of a slot, or all, that nothing is left to claim.
function wake.none(c, lane, slot)
  local channel = is_set(slot) and key.channel_wake_ring(c, slot, lane) or key.channel_wake(c, lane)
  wake.send(channel, message.none(call.partition(c)))
end

-- Approximate maximum size (bytes) of a message that announces several ended flows.
local MAX_DONE_MESSAGE = 65536

-- Publishes messages about the ends of flows to a process: one is sent unchanged, several are joined, each after its length.
local function publish_done(c, origin, messages)
  local channel = key.channel_done(c, origin)
  if #messages == 1 then
    wake.send(channel, messages[1])
    return
  end
  local parts, bytes = { 'many ' }, 0
  for i, text in ipairs(messages) do
    parts[#parts + 1] = number.text(#text) .. ' ' .. text
    bytes = bytes + #text
    if i == #messages or bytes >= MAX_DONE_MESSAGE then
      wake.send(channel, table.concat(parts))
      parts, bytes = { 'many ' }, 0
    end
  end
end

-- Wakes workers for the call's additions to the lanes of the set that `at` keeps: only when a set was empty before or a more
-- urgent member was added.
local function flush_lanes(c, lanes, at)
  for lane, added in pairs(lanes) do
    if added.count > 0 then
      if added.urgent or redis.call('ZCOUNT', key.lane_eligible(at, lane), '(-inf', '+inf') <= added.count then
        wake.workers(c, lane, nil, at)
      end
    end
  end
end

-- Sends the messages that concern one partition.
local function flush_partition(c)
  if c.own_lanes then flush_lanes(c, c.own_lanes, c) end
  if c.due_at then wake.tell_keepers(c, '', c.due_at) end
  local cancels = c.cancels
  for i = 1, cancels and #cancels or 0 do wake.send(key.channel_worker(c, cancels[i][1]), cancels[i][2]) end
end

-- Publishes the messages that the call gathered.
function wake.flush(c)
  if c.lanes then flush_lanes(c, c.lanes, call.home(c)) end
  flush_partition(c)
  local contexts = c.contexts
  for i = 1, contexts and #contexts or 0 do flush_partition(contexts[i]) end
  local finished = c.finished
  if finished then
    for i = 1, #finished do publish_done(c, finished[i], finished[finished[i]]) end
  end
end
