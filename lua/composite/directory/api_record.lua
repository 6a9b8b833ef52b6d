-- What servers of the HTTP API keep beside the runs of a namespace: the tokens of principals, and the replies to requests with an
-- idempotency key. Both are in the partition that programs name, by convention the first one.

-- Tokens of a namespace, and bytes of a token's record and of a stored reply.
local MAX_TOKENS = 1000
local MAX_RECORD = 16 * 1024
local MAX_REPLY = 256 * 1024

-- How long (ms) the reply to a request is kept, and how long a request may be carried out before a repeat is.
local REPLY_MS = 24 * 3600 * 1000
local REQUEST_MS = 60 * 1000

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
-- @summary  The tokens of a namespace, in no order. There are at most 1,000.
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
-- @summary  Removes a token. `removed` is false when there was none of that name.
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

-- @function ffx_begin_api_request
-- @summary  Begins a request with an idempotency key. `first` is true for the caller that is to carry it out. Otherwise the stored reply of
--           the request is returned, which is empty while it is carried out. The digest is that of the request; one with the same key and
--           another digest is refused.
-- @flags    derives
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      request_key        text
-- @arg      digest             text
-- @reply    OK first:bool stored:text
-- @error    api_request_conflict
function F.ffx_begin_api_request(K, A)
  local c = call.open(K.partition)
  local request = key.ffx_api_request(c, A.namespace, A.request_key)
  local stored = redis.call('GET', request)
  if not stored then
    redis.call('SET', request, A.digest, 'PX', REQUEST_MS)
    return reply.ok('1', '')
  end
  if string.sub(stored, 1, #A.digest) ~= A.digest then return reply.err('api_request_conflict') end
  return reply.ok('0', string.sub(stored, #A.digest + 1))
end

-- @function ffx_end_api_request
-- @summary  Stores the reply of a request, for 24 hours. Without a reply the request is forgotten, so that it can be
--           made again. A server that is full stores no replies: the request was carried out all the same.
-- @flags    derives repeatable intake
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @arg      request_key        text
-- @arg      digest             text
-- @arg      stored             text optional
-- @reply    OK
-- @error    invalid_input message:text
function F.ffx_end_api_request(K, A)
  local c = call.open(K.partition)
  local request = key.ffx_api_request(c, A.namespace, A.request_key)
  if not is_set(A.stored) then
    redis.call('DEL', request)
    return reply.ok()
  end
  if #A.stored > MAX_REPLY then
    return reply.err('invalid_input', 'stored must have at most ' .. MAX_REPLY .. ' bytes, got: ' .. #A.stored)
  end
  redis.call('SET', request, A.digest .. A.stored, 'PX', REPLY_MS)
  return reply.ok()
end
