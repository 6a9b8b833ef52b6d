-- Tokens that permit signalling a waitpoint: <kid>:<HMAC-SHA1 of id, key and creation time>.

local HMAC_BLOCK = 64
local MAC_LENGTH = 40

-- The bytes by their digits; nil before the first use.
local bytes_of

-- Returns the bytes of a text of hex digits, or nil.
local function from_hex(hex)
  if #hex % 2 ~= 0 or string.find(hex, '[^0-9a-fA-F]') then return nil end
  if not bytes_of then
    bytes_of = {}
    for byte = 0, 255 do bytes_of[string.format('%02x', byte)] = string.char(byte) end
  end
  return (string.gsub(string.lower(hex), '%x%x', bytes_of))
end

local function sha1(text)
  return from_hex(redis.sha1hex(text))
end

local function xor_pad(secret, byte)
  local out = {}
  for i = 1, HMAC_BLOCK do out[i] = string.char(bit.bxor(string.byte(secret, i) or 0, byte)) end
  return table.concat(out)
end

-- The last secret, its hex digits, and its pads.
local last_secret, last_hex, outer_pad, inner_pad

-- Returns the secret that hex digits are, or nil.
local function secret_of(hex) return hex == last_hex and last_secret or from_hex(hex) end

-- Returns the HMAC-SHA1 as 40 hex digits.
local function hmac(secret, text)
  if secret ~= last_secret then
    local block = #secret > HMAC_BLOCK and sha1(secret) or secret
    last_secret, last_hex, outer_pad, inner_pad = secret, nil, xor_pad(block, 0x5c), xor_pad(block, 0x36)
  end
  return redis.sha1hex(outer_pad .. sha1(inner_pad .. text))
end

-- Compares two texts in a time that does not depend on the place of their first difference.
local function same(a, b)
  if #a ~= #b then return false end
  local difference = 0
  for i = 1, #a do difference = bit.bor(difference, bit.bxor(string.byte(a, i), string.byte(b, i))) end
  return difference == 0
end

-- Keeps the digits of the last secret.
local function keep(hex, secret)
  if secret == last_secret then last_hex = hex end
end

local function mac(secret, waitpoint_id, waitpoint_key, created_at)
  return hmac(secret, waitpoint_id .. '|' .. waitpoint_key .. '|' .. created_at)
end

-- Returns a token for a waitpoint, or nil and the error code.
function waitpoint_token.mint(secrets_key, waitpoint_id, waitpoint_key, created_at)
  if not is_set(secrets_key) then return nil, 'invalid_keys_missing_hmac' end
  local kid = redis.call('HGET', secrets_key, 'current_kid')
  local hex = kid and redis.call('HGET', secrets_key, 'secret:' .. kid)
  if not hex then return nil, 'hmac_secret_not_initialized' end
  local secret = secret_of(hex)
  if not secret then return nil, 'invalid_secret' end
  local token = kid .. ':' .. mac(secret, waitpoint_id, waitpoint_key, created_at)
  keep(hex, secret)
  return token
end

-- Returns nil when tokens can be made, else the error reply.
function waitpoint_token.check_secret(secrets_key)
  local _, code = waitpoint_token.mint(secrets_key, '', '', '')
  return code and reply.err(code) or nil
end

-- Returns the end of a demoted key's grace time (ms); 0 when it has none.
local function grace_end(text)
  return number.finite(text or nil) or 0
end

-- Returns nil when the token is genuine and its key still valid, else the error code.
function waitpoint_token.check(c, secrets_key, text, waitpoint_id, waitpoint_key, created_at)
  if not is_set(secrets_key) then return 'invalid_keys_missing_hmac' end
  if not is_set(text) then return 'missing_token' end
  local kid, digest = string.match(text, '^([^:]+):(.+)$')
  if not kid or #digest ~= MAC_LENGTH then return 'invalid_token' end
  local found = redis.call('HMGET', secrets_key, 'current_kid', 'secret:' .. kid, 'expires_at:' .. kid)
  if not found[1] then return 'hmac_secret_not_initialized' end
  if not found[2] then return 'invalid_token' end
  if kid ~= found[1] then
    local ends = grace_end(found[3])
    if ends <= 0 or ends < c.now then return 'token_expired' end
  end
  local secret = secret_of(found[2])
  if not secret then return 'invalid_secret' end
  if created_at == '' then created_at = '0' end
  if not same(digest, mac(secret, waitpoint_id, waitpoint_key, created_at)) then return 'invalid_token' end
  return nil
end

-- Returns the keys whose grace time is over, as a set. The current key is never among them.
local function expired_kids(c, secrets, current)
  local expired = {}
  for i = 1, #secrets, 2 do
    local kid = string.match(secrets[i], '^expires_at:(.*)$')
    if kid and kid ~= current then
      local ends = grace_end(secrets[i + 1])
      if ends <= 0 or ends < c.now then expired[kid] = true end
    end
  end
  return expired
end

local function parse_rotation(A)
  if not is_set(A.new_kid) or string.find(A.new_kid, ':', 1, true) then return nil, reply.err('invalid_kid') end
  if not is_set(A.new_secret_hex) or not from_hex(A.new_secret_hex) then
    return nil, reply.err('invalid_secret_hex')
  end
  local grace = number.finite(A.grace_ms)
  if not grace or grace < 0 or grace > number.MAX_EXACT or grace ~= math.floor(grace) then
    return nil, reply.err('invalid_grace_ms')
  end
  return grace
end

-- @function ff_rotate_waitpoint_hmac_secret
-- @summary  Makes a new signing key the current one. Tokens of the previous key stay valid for the grace time. A key
--           id that is known with another secret is refused.
-- @flags    operator
-- @tag      partition
-- @key      secrets         waitpoint.secrets
-- @arg      new_kid         text omittable
-- @arg      new_secret_hex  text omittable
-- @arg      grace_ms        ms omittable
-- @reply    OK outcome:text previous_kid:text current_kid:text removed:int
-- @reply    OK outcome:text current_kid:text
-- @error    invalid_kid
-- @error    invalid_secret_hex
-- @error    invalid_grace_ms
-- @error    rotation_conflict kid:text
function F.ff_rotate_waitpoint_hmac_secret(K, A)
  local grace, err = parse_rotation(A)
  if err then return err end
  local kid = A.new_kid
  local c = call.open(K.secrets)
  local current = redis.call('HGET', K.secrets, 'current_kid')
  local expired = expired_kids(c, redis.call('HGETALL', K.secrets), current)
  local known = not expired[kid] and redis.call('HGET', K.secrets, 'secret:' .. kid)
  if known and known ~= A.new_secret_hex then return reply.err('rotation_conflict', kid) end
  if kid == current then
    if not known then redis.call('HSET', K.secrets, 'secret:' .. kid, A.new_secret_hex) end
    return reply.ok('noop', kid)
  end

  local removed = 0
  for old in pairs(expired) do
    redis.call('HDEL', K.secrets, 'expires_at:' .. old, 'secret:' .. old)
    removed = removed + 1
  end
  redis.call('HDEL', K.secrets, 'expires_at:' .. kid)
  if current then
    local ends = number.text(c.now + grace)
    redis.call('HSET', K.secrets, 'previous_kid', current, 'previous_expires_at', ends,
      'expires_at:' .. current, ends)
  end
  redis.call('HSET', K.secrets, 'current_kid', kid, 'secret:' .. kid, A.new_secret_hex)
  return reply.ok('rotated', current or '', kid, number.text(removed))
end

-- @record signing_key kid:text expires_at:unix_ms

-- @function ff_list_waitpoint_hmac_kids
-- @summary  The current signing key and the former ones whose tokens are still valid.
-- @flags    readonly
-- @tag      partition
-- @key      secrets         waitpoint.secrets
-- @reply    OK current_kid:text former:group(signing_key)
function F.ff_list_waitpoint_hmac_kids(K)
  local now = call.clock()
  local secrets = redis.call('HGETALL', K.secrets)
  local current, former = '', {}
  for i = 1, #secrets, 2 do
    local kid = string.match(secrets[i], '^expires_at:(.*)$')
    if secrets[i] == 'current_kid' then
      current = secrets[i + 1]
    elseif kid then
      local ends = grace_end(secrets[i + 1])
      if ends > 0 and ends >= now then
        former[#former + 1] = kid
        former[#former + 1] = secrets[i + 1]
      end
    end
  end
  local out = reply.ok(current, number.text(#former / 2))
  for _, value in ipairs(former) do out[#out + 1] = value end
  return out
end
