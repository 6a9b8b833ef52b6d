-- Tags of executions and flows.

-- @hook Runs before the tags of a managed flow, which was created at a time, change to those in a flat list.
function tagging.on_changed(c, flow_id, created_at, tags_key, list) end

-- A key is a lower-case word, a dot and at least one more character that is not a dot: "team.name".
local TAG_KEY = '^[a-z][a-z0-9_]*%.[^.]'

-- Checks a flat list of keys and values. Returns nil, or the error reply.
local function check_shape(list)
  if #list == 0 or #list % 2 ~= 0 then
    return reply.err('invalid_input', 'tags must be non-empty even-length key/value pairs')
  end
  return nil
end

local function check_keys(list)
  for i = 1, #list, 2 do
    if not string.find(list[i], TAG_KEY) then return reply.err('invalid_tag_key', list[i]) end
  end
  return nil
end

-- Adds checked tags. Returns the reply.
local function write_tags(core_key, tags_key, list)
  call.chunked('HSET', tags_key, list)
  record.set(core_key, 'last_mutation_at', number.text(call.clock()))
  -- The mark in a row records that its execution also has data outside of the row.
  if store.row(core_key) then record.set(core_key, 'tagged', '1') end
  return reply.ok(number.text(#list / 2))
end

-- @function ff_set_execution_tags
-- @summary  Adds tags to an execution, in any phase.
-- @flags    repeatable
-- @key      core            exec.core
-- @key      tags            exec.tags
-- @args     tags            text
-- @reply    OK count:int
-- @error    invalid_input message:text
-- @error    execution_not_found
-- @error    invalid_tag_key key:text
function F.ff_set_execution_tags(K, A)
  local err = check_shape(A.tags)
  if err then return err end
  if record.exists(K.core) == 0 then return reply.err('execution_not_found') end
  err = check_keys(A.tags)
  if err then return err end
  return write_tags(K.core, K.tags, A.tags)
end

-- Moves the tags of an old flow record, which contains them among the fields of the core, to their own key, once.
local function migrate(core_key, tags_key)
  if record.value(core_key, 'tags_migrated') == '1' then return end
  local fields = record.all(core_key)
  local moved, names = {}, {}
  for i = 1, #fields, 2 do
    if string.find(fields[i], TAG_KEY) then
      moved[#moved + 1] = fields[i]
      moved[#moved + 1] = fields[i + 1]
      names[#names + 1] = fields[i]
    end
  end
  call.chunked('HSET', tags_key, moved)
  call.chunked('HDEL', core_key, names)
  record.set(core_key, 'tags_migrated', '1')
end

-- @function ff_set_flow_tags
-- @summary  Adds tags to a flow, in any state.
-- @flags    repeatable
-- @key      flow            flow.core
-- @key      tags            flow.tags
-- @args     tags            text
-- @reply    OK count:int
-- @error    invalid_input message:text
-- @error    flow_not_found
-- @error    invalid_tag_key key:text
function F.ff_set_flow_tags(K, A)
  local err = check_shape(A.tags)
  if err then return err end
  local flow = record.read(K.flow, { 'managed', 'created_at', 'purging' })
  if not flow then return reply.err('flow_not_found') end
  err = check_keys(A.tags)
  if err then return err end
  migrate(K.flow, K.tags)
  if flow.managed and not flow.purging then
    tagging.on_changed(call.open(K.flow), string.match(K.flow, ':([^:]*):core$'), flow.created_at, K.tags, A.tags)
  end
  return write_tags(K.flow, K.tags, A.tags)
end
