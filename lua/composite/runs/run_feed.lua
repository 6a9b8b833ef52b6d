-- The feed of a namespace: the updates of its runs, partition by partition, for clients that follow all of them. It is written
-- while it is open; its readers keep it open. It costs one command for each call with updates.
--
-- A feed is a stream. An entry has the updates of one call, a line for each. The first entry records that the feed was opened.
-- Where a reader's entry is gone, later entries may be gone, too.

-- @text run_update {kind:word} {flow_id:word} {flow_name:word} {is_child:word} {node:word} {size:int} {rest}

-- Time (ms) for which a feed is open after a reader's request.
local OPEN_MS = 3600000

-- Time (ms) for which the interpreter uses its list of the open feeds of a partition. Feeds are opened in the same interpreter,
-- so this is for slots that move between servers, and for keys that were removed.
local KNOWN_MS = 5000

-- Approximate number of entries kept of a feed.
local MAX_ENTRIES = '1000'

-- Number of entries that one call reads.
local READ_ENTRIES = 100

-- Updates that the call has not written yet, by feed.
local pending = {}

-- Returns the open feeds of a partition, by namespace with the time until which they are open; false when there are none.
local function open_feeds(c)
  local at = c.at
  local feeds = at.run_feeds
  if feeds ~= nil and c.now >= at.run_feeds_at and c.now - at.run_feeds_at < KNOWN_MS then return feeds end
  feeds = false
  local found = redis.call('HGETALL', key.ffx_open_feeds(c))
  for i = 1, #found, 2 do
    feeds = feeds or {}
    feeds[found[i]] = tonumber(found[i + 1])
  end
  at.run_feeds, at.run_feeds_at = feeds, c.now
  return feeds
end

-- Adds an update of a run to the feed of its namespace, if it is open.
local function tell(c, feeds, namespace, kind, flow_id, flow_name, run_id, is_child, node, detail)
  local open_until = feeds[namespace]
  if not open_until or open_until <= c.now then return end
  local feed_key = key.ffx_run_feed(c, namespace)
  local lines = pending[feed_key]
  if not lines then
    lines = {}
    pending[feed_key], call.held.feeds = lines, true
  end
  lines[#lines + 1] = encode.run_update(kind, flow_id, flow_name, is_child and '1' or '0', node or '', #run_id,
    event_log.escaped(run_id .. (detail or '')))
end

-- Reports whether any feed of the partition is open.
function run_feed.is_open(c) return open_feeds(c) ~= false end

-- Adds the start of a run of a class. `run` has its record and parent.
function run_feed.started(c, flow_id, class, run)
  local feeds = open_feeds(c)
  if not feeds then return end
  local run_id = run_data.decode(run.record, flow_id).run_id or ''
  tell(c, feeds, class.namespace, 'flow_submitted', flow_id, class.flow_kind, run_id, run.parent)
end

-- Adds the end of a run. `flow` has its flow_kind, run_id, namespace and parent_execution_id.
function run_feed.ended(c, flow_id, flow, outcome)
  local feeds = open_feeds(c)
  if feeds then
    run_rows.describe(flow)
    tell(c, feeds, flow.namespace or '', 'flow_' .. outcome, flow_id, flow.flow_kind or '', flow.run_id or '',
      is_set(flow.parent_execution_id), flow.failed_node)
  end
end

local FIELDS = { 'namespace', 'flow_kind', 'run_id', 'parent_execution_id' }

-- Adds an event of note of a run, or of a node of it.
function run_feed.note(c, flow_id, event, node, detail)
  local feeds = open_feeds(c)
  local flow = feeds and record.read(key.flow_core(c, flow_id), FIELDS)
  if not flow then return end
  tell(c, feeds, flow.namespace or '', event, flow_id, flow.flow_kind or '', flow.run_id or '', flow.parent_execution_id, node, detail)
end

-- Writes the updates of the call. The next call gets another table, as in event_log.write.
function run_feed.write()
  local feeds = pending
  pending = {}
  for feed_key, lines in next, feeds, nil do
    redis.call('XADD', feed_key, 'MAXLEN', '~', MAX_ENTRIES, '*', 'updates', table.concat(lines, '\n'))
  end
end

-- Drops the updates that an interrupted call has left.
function run_feed.drop() pending = {} end

local function last_entry(feed_key)
  local last = redis.call('XREVRANGE', feed_key, '+', '-', 'COUNT', 1)[1]
  return last and last[1]
end

-- @function ffx_open_feed
-- @summary  Opens the feed of a namespace in a partition, or keeps it open: for an hour. Returns the position after all present
--           updates.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @reply    OK last:text
function F.ffx_open_feed(K, A)
  local c = call.open(K.partition)
  local open_key, feed_key = key.ffx_open_feeds(c), key.ffx_run_feed(c, A.namespace)
  local open_until = tonumber(redis.call('HGET', open_key, A.namespace) or nil) or 0
  local last = open_until > c.now and last_entry(feed_key)
  if not last then
    redis.call('UNLINK', feed_key)
    last = redis.call('XADD', feed_key, '*', 'updates', '')
  end
  local found = redis.call('HGETALL', open_key)
  for i = 1, #found, 2 do
    if tonumber(found[i + 1]) <= c.now then redis.call('HDEL', open_key, found[i]) end
  end
  redis.call('HSET', open_key, A.namespace, number.text(c.now + OPEN_MS))
  redis.call('PEXPIRE', open_key, OPEN_MS)
  redis.call('PEXPIRE', feed_key, OPEN_MS)
  c.at.run_feeds = nil
  return reply.ok(last)
end

-- Reports whether a reader wants an event. `kinds` are all when nil.
local function is_wanted(A, kinds, kind, flow_name, is_child)
  if kinds and not kinds[kind] then return false end
  if is_set(A.flow_name) then return flow_name == A.flow_name end
  return is_child ~= '1' or A.children == '1'
end

-- Appends the updates of an entry that a reader wants to a list.
local function append_entry(list, A, kinds, entry)
  local id, place = entry[1], 0
  for line in string.gmatch(entry[2][2] or '', '[^\n]+') do
    place = place + 1
    local kind, flow_id, flow_name, is_child, node, size, rest = decode.run_update(line)
    if kind and is_wanted(A, kinds, kind, flow_name, is_child) then
      rest, size = event_log.unescaped(rest), tonumber(size)
      list[#list + 1] = {
        string.match(id, '^%d+'), kind, flow_id, flow_name, string.sub(rest, 1, size), is_child, node, string.sub(rest, size + 1),
        id, number.text(place),
      }
    end
  end
end

-- @record run_update at:unix_ms kind:text flow_id:flow_id flow_name:text run_id:text child:bool node:text detail:text entry:text place:int

-- @function ffx_read_feed
-- @summary  Returns the updates in the feed of a namespace in a partition after a position: of a flow or all, of certain kinds,
--           and with `children` also of child runs. `lost` means that the position is gone, and later updates may be; all
--           remaining ones are returned then. Reads a bounded number of entries: continue after `next` while `more`.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      after              text
-- @arg      flow_name          text optional
-- @arg      kinds              csv optional
-- @arg      children           bool optional
-- @reply    OK updates:list(run_update) next:text lost:bool more:bool
function F.ffx_read_feed(K, A)
  local c, list, kinds = call.open(K.partition), {}, nil
  if is_set(A.kinds) then
    kinds = {}
    for kind in string.gmatch(A.kinds, '[^,]+') do kinds[kind] = true end
  end
  local feed_key = key.ffx_run_feed(c, A.namespace)
  local entries = redis.call('XRANGE', feed_key, string.match(A.after, '^%d+%-%d+$') or '-', '+', 'COUNT', READ_ENTRIES + 1)
  local there = entries[1] and entries[1][1] == A.after
  if not there then
    entries = redis.call('XRANGE', feed_key, '-', '+', 'COUNT', READ_ENTRIES)
  end
  local last = A.after
  for i = there and 2 or 1, #entries do
    append_entry(list, A, kinds, entries[i])
    last = entries[i][1]
  end
  return reply.ok(list, last, there and '0' or '1', #entries >= READ_ENTRIES and '1' or '0')
end
