-- Records that servers of the HTTP API keep in addition to the runs of a namespace: the tokens of principals, the sessions of
-- browsers, and the replies to requests with an idempotency key. All are in the partition that programs name, by convention the
-- first one.

-- Maximum numbers of a namespace's tokens, of its sessions, of one principal's sessions, and of the sessions in one page; maximum
-- bytes of a token's or session's record and of a stored reply.
local MAX_TOKENS = 1000
local MAX_SESSIONS = 10000
local MAX_SESSIONS_EACH = 100
local MAX_LISTED = 200
local MAX_RECORD = 16 * 1024
local MAX_REPLY = 256 * 1024

-- Time (ms) for which the reply to a request is kept, and time for which a request may be performed before a repeat is.
local REPLY_MS = 24 * 3600 * 1000
local REQUEST_MS = 60 * 1000

-- Maximum number of a principal's requests that are kept, maximum bytes of their replies, and number of expired requests that a
-- call removes.
local MAX_REQUESTS = 100000
local MAX_REPLIES = 64 * 1024 * 1024
local FORGOTTEN = 16

-- @function ffx_add_api_token
-- @summary  Adds a token of the HTTP API to a namespace. The name of a token is unique; its record has the hash of its secret.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      token_name         text
-- @arg      about              json
-- @reply    OK
-- @reply    ALREADY_SATISFIED
-- @error    api_token_exists
-- @error    invalid_input message:text
function F.ffx_add_api_token(K, A)
  if #A.about > MAX_RECORD then
    return reply.err('invalid_input', 'about must have at most ' .. MAX_RECORD .. ' bytes, got: ' .. #A.about)
  end
  local c = call.open(K.partition)
  local tokens = key.ffx_api_tokens(c, A.namespace)
  local stored = redis.call('HGET', tokens, A.token_name)
  if stored == A.about then return reply.already() end
  if stored then return reply.err('api_token_exists') end
  if redis.call('HLEN', tokens) >= MAX_TOKENS then
    return reply.err('invalid_input', 'a namespace has at most ' .. MAX_TOKENS .. ' tokens; remove one first')
  end
  redis.call('HSET', tokens, A.token_name, A.about)
  return reply.ok()
end

-- @record api_token token_name:text about:json

-- @function ffx_list_api_tokens
-- @summary  Returns the tokens of a namespace, in no order. There are at most 1,000.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @reply    OK tokens:list(api_token)
function F.ffx_list_api_tokens(K, A)
  local c = call.open(K.partition)
  local list, fields = {}, redis.call('HGETALL', key.ffx_api_tokens(c, A.namespace))
  for i = 1, #fields, 2 do list[#list + 1] = { fields[i], fields[i + 1] } end
  return reply.ok(list)
end

-- @function ffx_remove_api_token
-- @summary  Removes a token. `removed` is false when there was none with that name.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      token_name         text
-- @reply    OK removed:bool
function F.ffx_remove_api_token(K, A)
  local c = call.open(K.partition)
  local removed = redis.call('HDEL', key.ffx_api_tokens(c, A.namespace), A.token_name)
  return reply.ok(number.text(removed))
end

-- Returns the sessions of a namespace: a hash of their records, and when each ends.
local function sessions_of(c, A)
  return { stored = key.ffx_api_sessions(c, A.namespace), ends = key.ffx_api_session_ends(c, A.namespace) }
end

local function end_session(of, session_id)
  redis.call('ZREM', of.ends, session_id)
  return redis.call('HDEL', of.stored, session_id)
end

-- Returns the record of a session; nil when it has ended.
local function session(c, of, session_id)
  local ends = redis.call('ZSCORE', of.ends, session_id)
  if not ends or tonumber(ends) <= c.now then return nil end
  return redis.call('HGET', of.stored, session_id) or nil
end

-- Makes room for a session of an owner: removes expired sessions and, beyond a limit, those that would end first.
local function make_room(c, of, owner)
  local ids, own = redis.call('ZRANGE', of.ends, 0, -1, 'WITHSCORES'), {}
  for i = 1, #ids, 2 do
    if tonumber(ids[i + 1]) <= c.now or #ids / 2 - (i - 1) / 2 >= MAX_SESSIONS then
      end_session(of, ids[i])
    elseif string.sub(ids[i], 1, #owner) == owner then
      own[#own + 1] = ids[i]
    end
  end
  for i = 1, #own - MAX_SESSIONS_EACH + 1 do end_session(of, own[i]) end
end

-- @function ffx_add_api_session
-- @summary  Adds the session of a browser to a namespace, for the time ttl. Its id begins with the text of its owner, who has at
--           most 100 at a time; a namespace has 10,000. Beyond that, the sessions that would end first are ended.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      session_id         text
-- @arg      owner              text
-- @arg      about              json
-- @arg      ttl                ms
-- @reply    OK
-- @error    invalid_input message:text
function F.ffx_add_api_session(K, A)
  if #A.about > MAX_RECORD then
    return reply.err('invalid_input', 'about must have at most ' .. MAX_RECORD .. ' bytes, got: ' .. #A.about)
  elseif A.owner == '' or string.sub(A.session_id, 1, #A.owner) ~= A.owner then
    return reply.err('invalid_input', 'session_id must begin with owner')
  end
  local ttl, err = number.count('ttl', A.ttl)
  if err then return err end
  local c = call.open(K.partition)
  local of = sessions_of(c, A)
  if redis.call('HEXISTS', of.stored, A.session_id) == 1 then return reply.ok() end
  make_room(c, of, A.owner)
  redis.call('HSET', of.stored, A.session_id, A.about)
  redis.call('ZADD', of.ends, c.now + ttl, A.session_id)
  local last = redis.call('ZRANGE', of.ends, -1, -1, 'WITHSCORES')[2]
  local left = number.digits(math.max(1, tonumber(last) - c.now))
  redis.call('PEXPIRE', of.stored, left)
  redis.call('PEXPIRE', of.ends, left)
  return reply.ok()
end

-- @function ffx_read_api_session
-- @summary  Returns the record of a session; empty when it has ended.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      session_id         text
-- @reply    OK about:text
function F.ffx_read_api_session(K, A)
  local c = call.open(K.partition)
  return reply.ok(session(c, sessions_of(c, A), A.session_id) or '')
end

-- @record api_session session_id:text about:json position:text

-- @function ffx_list_api_sessions
-- @summary  Returns sessions of a namespace, in the order in which they end: at most `limit`, and 200. Continue with next_cursor
--           until it is empty, or with the position of a session to read those after it.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      limit              int
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text sessions:list(api_session)
-- @error    invalid_input message:text
function F.ffx_list_api_sessions(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local at, after = string.match(A.cursor or '', '^(%d+)%-(.+)$')
  if is_set(A.cursor) and not at then
    return reply.err('invalid_input', 'cursor must be that of a reply, got: ' .. A.cursor)
  end
  limit = math.max(1, math.min(limit, MAX_LISTED))
  local c = call.open(K.partition)
  local of, list, seen = sessions_of(c, A), {}, 0
  local from = at and tonumber(at) > c.now and at or '(' .. c.now_text
  repeat -- once, or twice where sessions end in the same millisecond as the one at the cursor
    local page = redis.call('ZRANGEBYSCORE', of.ends, from, '+inf', 'WITHSCORES', 'LIMIT', seen, limit)
    for i = 1, #page, 2 do
      local session_id, ends = page[i], page[i + 1]
      local about = (ends ~= at or session_id > after) and redis.call('HGET', of.stored, session_id)
      if about and #list < limit then list[#list + 1] = { session_id, about, ends .. '-' .. session_id } end
    end
    seen = seen + limit
  until #list == limit or #page < 2 * limit
  return reply.ok(#list == limit and list[limit][3] or '', list)
end

-- @function ffx_remove_api_session
-- @summary  Ends a session. `removed` is false when there was none with that id.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      session_id         text
-- @reply    OK removed:bool
function F.ffx_remove_api_session(K, A)
  local c = call.open(K.partition)
  return reply.ok(number.text(end_session(sessions_of(c, A), A.session_id)))
end

-- Keys of one principal's requests: a hash of each request's digest followed by its reply, and when each is removed. A separate
-- field of the hash has the bytes of all replies.
local BYTES = 'bytes'

local function requests_of(c, A)
  return { stored = key.ffx_api_requests(c, A.namespace, A.owner), ends = key.ffx_api_request_ends(c, A.namespace, A.owner) }
end

local function forget(of, request_key)
  redis.call('HINCRBY', of.stored, BYTES, -redis.call('HSTRLEN', of.stored, request_key))
  redis.call('HDEL', of.stored, request_key)
  redis.call('ZREM', of.ends, request_key)
  if redis.call('EXISTS', of.ends) == 0 then redis.call('DEL', of.stored) end
end

local function keep_request(c, of, request_key, text, ms)
  redis.call('HINCRBY', of.stored, BYTES, #text - redis.call('HSTRLEN', of.stored, request_key))
  redis.call('HSET', of.stored, request_key, text)
  redis.call('ZADD', of.ends, c.now + ms, request_key)
  redis.call('PEXPIRE', of.stored, REPLY_MS)
  redis.call('PEXPIRE', of.ends, REPLY_MS)
end

-- Returns the stored data of a request, or nil. It first removes some expired requests.
local function kept(c, of, request_key)
  for _, over in ipairs(redis.call('ZRANGEBYSCORE', of.ends, '-inf', c.now, 'LIMIT', 0, FORGOTTEN)) do forget(of, over) end
  local until_ms = redis.call('ZSCORE', of.ends, request_key)
  if until_ms and tonumber(until_ms) <= c.now then forget(of, request_key) end
  return redis.call('HGET', of.stored, request_key)
end

local function is_full(of)
  return redis.call('ZCARD', of.ends) >= MAX_REQUESTS or tonumber(redis.call('HGET', of.stored, BYTES) or '0') >= MAX_REPLIES
end

-- @function ffx_begin_api_request
-- @summary  Begins a request with an idempotency key. `first` is true for the caller that performs it. Otherwise the stored reply
--           of the request is returned, which is empty while it is performed. The digest belongs to the request; a request with
--           the same key and another digest is refused. `owner` is the principal, who has at most 100,000 keys and 64 MiB of
--           replies at a time.
-- @flags    derives
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      owner              text
-- @arg      request_key        text
-- @arg      digest             text
-- @reply    OK first:bool stored:text
-- @error    api_request_conflict
-- @error    api_requests_full
function F.ffx_begin_api_request(K, A)
  local c = call.open(K.partition)
  local of = requests_of(c, A)
  local stored = kept(c, of, A.request_key)
  if not stored then
    if is_full(of) then return reply.err('api_requests_full') end
    keep_request(c, of, A.request_key, A.digest, REQUEST_MS)
    return reply.ok('1', '')
  end
  if string.sub(stored, 1, #A.digest) ~= A.digest then return reply.err('api_request_conflict') end
  return reply.ok('0', string.sub(stored, #A.digest + 1))
end

-- @function ffx_end_api_request
-- @summary  Stores the reply of a request, for 24 hours. Without a reply the request is removed, so that it can be made again. A
--           server that is full stores no replies, although the request was performed.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      owner              text
-- @arg      request_key        text
-- @arg      digest             text
-- @arg      stored             text optional
-- @reply    OK
-- @error    invalid_input message:text
function F.ffx_end_api_request(K, A)
  local c = call.open(K.partition)
  local of = requests_of(c, A)
  if not is_set(A.stored) then
    forget(of, A.request_key)
    return reply.ok()
  end
  if #A.stored > MAX_REPLY then
    return reply.err('invalid_input', 'stored must have at most ' .. MAX_REPLY .. ' bytes, got: ' .. #A.stored)
  end
  keep_request(c, of, A.request_key, A.digest .. A.stored, REPLY_MS)
  return reply.ok()
end
