-- Messages to workers, keepers and clients. They are hints: a lost one costs time, never work, because workers and
-- keepers also look by themselves, seldom. Executions outside of managed flows cause them where workers or keepers of
-- this project have called: see wake.tells_of_others.

-- To workers: something to claim; nothing left; an execution set aside that the worker who met it cannot run; a worker
-- that serves the lane, or no longer does, which workers tell each other; and that a lease has ended. The mark makes
-- messages differ: the library sends its time (ms). The kind says whether the execution was cancelled, ran out of time
-- (expired), or lost its lease (revoked); the reason of a cancel is a caller's text, which may be any. A worker that is told to
-- drain takes no more work. What is awaited is that a function returns which is told to stop with the next message.

-- @message  work    channel.wake,channel.wake_ring work {partition} {mark}
-- @message  none    channel.wake,channel.wake_ring none {partition}
-- @message  aside   channel.wake              aside {partition} {activity}
-- @message  here    channel.wake              here {worker_instance_id}
-- @message  left    channel.wake              left {worker_instance_id}
-- @message  cancel  channel.worker            cancel {execution_id} {lease_id} {kind:word} {reason}
-- @message  drain   channel.worker            drain {worker_instance_id}
-- @message  awaited channel.worker            awaited {execution_id} {lease_id}

-- To keepers: something is due in a partition at a time (ms), earlier than all that they know of there.

-- @message  due     channel.due               {partition:any_partition} {at:unix_ms}

-- Among keepers: one that runs and how often it says so, with the mark of those that workers share; and one that stops.
-- On the channel of those on standby: one that follows the messages of those that run, to take over, or no longer does.

-- @message  keeper_here channel.keepers,channel.standby_keepers here {keeper_id:word} {heartbeat:ms} {mark?}
-- @message  keeper_gone channel.keepers,channel.standby_keepers gone {keeper_id:word}

-- To clients: a flow is over, with a small result; or runs again, with the outcome reopened.

-- @message  done    channel.done              {flow_id} {outcome:word} {result?}
-- @frame    many    channel.done              many

-- Sends a message and gives how many heard it; nil when it could not be sent, for want of rights on the channel for
-- instance: a call that has written must not end half-way for a hint. The only place of the library that publishes.
function wake.send(channel, text)
  local heard = redis.pcall('PUBLISH', channel, text)
  if type(heard) == 'number' then return heard end
  return nil
end

-- Lanes are counted apart for the order that partitions share (c.root.lanes) and for sets of a partition's own (c.own_lanes).

-- What a call has added to the order of a lane: count and urgent; nil when it has added nothing.
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

-- A member was added to the order of a lane.
function wake.eligible(c, lane, priority) add(call.list_in(c.root or c, 'lanes'), lane, priority) end

-- @hook Reports whether workers and keepers are told of executions and flows that are not managed.
function wake.tells_of_others() return false end

-- @hook Notes that executions outside of managed flows use a lane, so that keepers see to what is delayed there.
function wake.note_lane(c, lane) end

-- Reports whether what happens to an execution or a flow is announced.
function wake.is_announced(core) return core.managed ~= nil or wake.tells_of_others() end

-- Whether an execution waits in the order of its lane, and not in a set of its own partition: see order.index.
local function is_ordered(c, core) return core.managed or call.home(c) == c end

-- An execution was added to the eligible set that order.index names.
function wake.entered(c, lane, core)
  if not wake.is_announced(core) then return end
  if is_ordered(c, core) then
    wake.eligible(c, lane, core.priority)
  else
    add(call.list_in(c, 'own_lanes'), lane, core.priority)
  end
end

-- An execution that this very call had added was taken out again.
function wake.taken(c, lane, core)
  local added
  if is_ordered(c, core) then added = wake.added(c, lane) else added = c.own_lanes and c.own_lanes[lane] end
  if added and added.count > 0 then added.count = added.count - 1 end
end

-- Something of an execution or a flow is due at `at` (ms).
function wake.due_for(c, core, at)
  if wake.is_announced(core) then wake.due(c, at) end
end

-- An execution waits in the delayed set of its lane until `at` (ms).
function wake.delayed(c, lane, core, at)
  if not wake.is_announced(core) then return end
  if not core.managed then wake.note_lane(c, lane) end
  wake.due(c, at)
end

-- Something is due at `at` (ms). Every call that enters something into an index of due times says so, since keepers
-- rest until then.
function wake.due(c, at)
  if not c.due_at or at < c.due_at then c.due_at = at end
end

-- A keeper that is this much (ms) later than it was told to look may have missed the message.
local LATE_MS = 1000

-- Tells keepers that something is due at `at` (ms) in the partition of the call; `family` is the letter of partitions
-- that are not those of flows. Keepers know when to look next: they have been told, or have learned it when they looked. The
-- server remembers for each partition what they know, and tells them only of what is earlier. It forgets that when it
-- starts or loads the library, and then tells them more than it needs to.
function wake.tell_keepers(c, family, at)
  local place = c.at
  local known = place.next_visit
  if known and known <= at and known > c.now - LATE_MS then return end
  place.next_visit = at
  wake.send(key.channel_due(c), message.due(family .. call.partition(c), number.text(at)))
end

-- A keeper has looked at the partition of the call and is told with the reply that something is due next at `at` (ms);
-- nil for nothing.
function wake.visited(c, at) c.at.next_visit = at end

-- The worker that runs an execution is told to stop. `kind` is cancelled, expired or revoked.
function wake.cancel(c, worker_instance_id, execution_id, lease_id, kind, reason)
  local cancels = call.list_in(c, 'cancels')
  cancels[#cancels + 1] = { worker_instance_id, message.cancel(execution_id, lease_id or '', kind, reason) }
end

-- The worker that ran an execution, if one did, is told to stop. `core` is as it was then; with `awaits_release`, something waits until
-- the function has returned.
function wake.stop(c, worker_instance_id, execution_id, core, kind, reason)
  if not is_set(worker_instance_id) or not wake.is_announced(core) then return end
  if core.awaits_release then
    local cancels = call.list_in(c, 'cancels')
    cancels[#cancels + 1] = { worker_instance_id, message.awaited(execution_id, core.current_lease_id) }
  end
  wake.cancel(c, worker_instance_id, execution_id, core.current_lease_id, kind, reason)
end

-- Results up to this size (bytes) go with the message that a flow is over.
local MAX_DONE_RESULT = 4096

local function tell_done(c, flow_id, outcome, result)
  local finished = call.list_in(c, 'finished')
  finished[#finished + 1] = message.done(flow_id, outcome, result)
end

-- A flow is over. A small result goes with the message when the call has it at hand, so that whoever waits need not
-- ask for it.
function wake.done(c, flow_id, outcome, result)
  if is_set(result) and #result > MAX_DONE_RESULT then result = nil end
  tell_done(c, flow_id, outcome, result)
end

-- A flow that was over runs again, so that its end is to come.
function wake.reopened(c, flow_id) tell_done(c, flow_id, 'reopened') end

-- Wake-ups of a lane go to few of its workers: those that listen to the slot of the wake ring that it is at that time.
-- A slot lasts SLOT_MS and comes once per round of SLOTS, in another order in every round, so that work that comes at a
-- steady pace does not always meet the same slots. Workers use the same rule.
local SLOT_MS, SLOTS = 20, 256

-- So many workers listen to each slot.
local WOKEN_PER_SLOT = 3

-- The slot of a time (ms).
function wake.slot(at)
  local step = math.floor(at / SLOT_MS)
  local round = math.floor(step / SLOTS) % SLOTS
  return (step % SLOTS * (2 * round + 1) + round) % SLOTS
end

-- Tells all workers of a lane that there is something to claim. The time makes messages differ: by it, workers find out
-- who answers first. It names the partition whose eligible set it is: by default the one that keeps the order of the lane.
function wake.all(c, lane, at)
  wake.send(key.channel_wake(c, lane), message.work(call.partition(at or call.home(c)), c.now_text))
end

-- Tells the workers of the present slot, or of a given one, that there is something to claim; all workers when this
-- server knows of no listener to the slot.
function wake.workers(c, lane, slot, at)
  at = at or call.home(c)
  local channel = key.channel_wake_ring(c, number.text(slot or wake.slot(c.now)), lane)
  if wake.send(channel, message.work(call.partition(at), c.now_text)) == 0 then wake.all(c, lane, at) end
end

-- Passes a wake-up on to as many further workers as needed: one that was woken at a slot took `taken` executions and
-- left some.
function wake.pass_on(c, lane, slot, taken, at)
  if redis.call('ZCARD', key.lane_eligible(at, lane)) > WOKEN_PER_SLOT * taken then return wake.all(c, lane, at) end
  wake.workers(c, lane, ((tonumber(slot) or 0) + WOKEN_PER_SLOT) % SLOTS, at)
end

-- Tells the workers of a slot, or all, that nothing is left to claim.
function wake.none(c, lane, slot)
  local channel = is_set(slot) and key.channel_wake_ring(c, slot, lane) or key.channel_wake(c, lane)
  wake.send(channel, message.none(call.partition(c)))
end

local NOTHING = {}

-- What several flows have to tell goes in one message up to this size (bytes), roughly.
local MAX_DONE_MESSAGE = 65536

-- One message goes as it is; more of them each behind its length.
local function publish_done(c, messages)
  local channel = key.channel_done(c)
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

-- Wakes workers for what the call added to the lanes of the set that `at` keeps: only when a set was empty before or a more
-- urgent member came.
local function flush_lanes(c, lanes, at)
  for lane, added in pairs(lanes) do
    if added.count > 0 then
      if added.urgent or redis.call('ZCOUNT', key.lane_eligible(at, lane), '(-inf', '+inf') <= added.count then
        wake.workers(c, lane, nil, at)
      end
    end
  end
end

-- What concerns one partition.
local function flush_partition(c)
  if c.own_lanes then flush_lanes(c, c.own_lanes, c) end
  if c.due_at then wake.tell_keepers(c, '', c.due_at) end
  for _, cancel in ipairs(c.cancels or NOTHING) do
    wake.send(key.channel_worker(c, cancel[1]), cancel[2])
  end
  if c.finished then publish_done(c, c.finished) end
end

-- Publishes what the call gathered.
function wake.flush(c)
  if c.lanes then flush_lanes(c, c.lanes, call.home(c)) end
  flush_partition(c)
  for _, beside in ipairs(c.contexts or NOTHING) do flush_partition(beside) end
end
