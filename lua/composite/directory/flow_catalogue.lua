-- The catalogue: the flows that programs publish, so that others can list them, show them, and start them by name. An entry has
-- the last published form of the flow, and the hashes of the graphs before. All entries are in the partition that programs name,
-- by convention the first one. Runs do not read them.

-- Maximum number of publications in the history of a flow, the last one included.
local MAX_HISTORY = 50

local MAX_LISTED = 200

local function entry_key(c, A) return key.ffx_published(c, A.namespace, A.flow_name) end

-- @function ffx_publish_flow
-- @summary  Publishes a flow: replaces the entry of its name unless that has the same digest. The digest covers all arguments
--           after it. Without a definition nothing is written: when the answer reports that the entry is not known, the call is
--           made again with it. A graph with another hash than the previous one enters the history.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      flow_name          text
-- @arg      graph_hash         text
-- @arg      digest             text
-- @arg      actor              text optional
-- @arg      about              json optional
-- @arg      definition         json optional
-- @arg      input_schema       json optional
-- @arg      result_schema      json optional
-- @reply    OK known:bool
-- @reply    ALREADY_SATISFIED known:bool
function F.ffx_publish_flow(K, A)
  local c = call.open(K.partition)
  local entry = entry_key(c, A)
  local stored = redis.call('HMGET', entry, 'digest', 'hash')
  if stored[1] == A.digest then return reply.already('1') end
  if not is_set(A.definition) then return reply.ok('0') end
  redis.call('HSET', entry, 'digest', A.digest, 'hash', A.graph_hash, 'published_at', c.now_text, 'published_by', A.actor or '',
    'about', A.about or '', 'definition', A.definition, 'input_schema', A.input_schema or '',
    'result_schema', A.result_schema or '')
  redis.call('ZADD', key.ffx_published_flows(c, A.namespace), c.now, A.flow_name)
  if stored[2] ~= A.graph_hash then
    local history = key.ffx_published_history(c, A.namespace, A.flow_name)
    redis.call('LPUSH', history, A.graph_hash .. ' ' .. c.now_text .. ' ' .. (A.actor or ''))
    redis.call('LTRIM', history, 0, MAX_HISTORY - 1)
  end
  return reply.ok('1')
end

-- @record publication graph_hash:text published_at:unix_ms published_by:text

local function history_of(c, A)
  local list = {}
  for _, text in ipairs(redis.call('LRANGE', key.ffx_published_history(c, A.namespace, A.flow_name), 0, -1)) do
    local hash, at, by = string.match(text, '^(%S*) (%d+) (.*)$')
    if hash then list[#list + 1] = { hash, at, by } end
  end
  return list
end

-- @function ffx_read_published
-- @summary  Returns the entry of a flow, with the hashes of its graphs, the last one first. For a caller that knows the digest of
--           the entry, `same` is true, and about, definition, schemas and history are left out.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      flow_name          text
-- @arg      known_digest       text optional
-- @reply    OK same:bool graph_hash:text digest:text published_at:unix_ms published_by:text about:json definition:json input_schema:json result_schema:json history:list(publication)
-- @error    flow_not_published
function F.ffx_read_published(K, A)
  local c = call.open(K.partition)
  local head = redis.call('HMGET', entry_key(c, A), 'hash', 'digest', 'published_at', 'published_by')
  if not head[2] then return reply.err('flow_not_published') end
  if head[2] == A.known_digest then return reply.ok('1', head[1], head[2], head[3], head[4], '', '', '', '', {}) end
  local body = redis.call('HMGET', entry_key(c, A), 'about', 'definition', 'input_schema', 'result_schema')
  return reply.ok('0', head[1], head[2], head[3], head[4], body[1], body[2], body[3], body[4], history_of(c, A))
end

-- @record published_flow flow_name:text graph_hash:text published_at:unix_ms published_by:text about:json

-- @function ffx_list_published
-- @summary  Returns the published flows of a namespace, by the time of their last publication, the oldest first: continue with
--           next_cursor until it is empty. A flow that is published during the listing may be listed twice.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      cursor             text optional
-- @reply    OK flows:list(published_flow) next_cursor:text
function F.ffx_list_published(K, A)
  local c = call.open(K.partition)
  local names, next_cursor = score_page.read(key.ffx_published_flows(c, A.namespace), A.cursor, MAX_LISTED)
  local list = {}
  for _, name in ipairs(names) do
    local entry = redis.call('HMGET', key.ffx_published(c, A.namespace, name), 'hash', 'published_at', 'published_by', 'about')
    if entry[1] then list[#list + 1] = { name, entry[1], entry[2], entry[3], entry[4] } end
  end
  return reply.ok(list, next_cursor)
end

-- @function ffx_withdraw_flow
-- @summary  Removes the entry of a flow with its history.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      flow_name          text
-- @reply    OK
-- @reply    ALREADY_SATISFIED
function F.ffx_withdraw_flow(K, A)
  local c = call.open(K.partition)
  redis.call('ZREM', key.ffx_published_flows(c, A.namespace), A.flow_name)
  redis.call('UNLINK', key.ffx_published_history(c, A.namespace, A.flow_name))
  if redis.call('UNLINK', entry_key(c, A)) == 0 then return reply.already() end
  return reply.ok()
end
