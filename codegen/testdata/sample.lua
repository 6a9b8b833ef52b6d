local F = {}
local reply, call, key = {}, {}, {}

-- @template exec.core        exec:{tag}:{execution_id}:core
-- @template exec.dep         exec:{tag}:{execution_id}:dep:{edge_id}
-- @template exec.idem        idem:{tag}:{namespace}:{idempotency_key}
-- @template attempt.record   attempt:{tag}:{execution_id}:{attempt_index}
-- @template ffx.partition    ffx:{tag}
-- @template workers          idx:workers

-- @record    item            name:text value:bytes parts:list(size:int)
-- @arguments request         lane_id:lane_id count:int note:text optional
-- @errors    fenced          lease_expired stale_lease message:text

function reply.err(code, ...) return { 0, code, ... } end
function reply.ok(...) return { 1, 'OK', ... } end
function call.begin() end
function call.finish(answer) return answer end
function call.refuse(keys, key_count, args, arg_count, ...) return 'refused', ... end

-- @function ff_everything
-- @summary  Shows every kind of key and argument
--           in one header.
-- @flags    derives fence
-- @key      core     exec.core
-- @key      old      attempt.record(attempt_index=old_attempt_index)
-- @key      idem     exec.idem optional   the key of a repeated creation
-- @keys     dep      exec.dep(edge_id=edge_ids)
-- @arg      execution_id execution_id
-- @arg      payload  bytes
-- @arg      ttl_ms   ms optional          how long
-- @arg      due_at   unix_ms
-- @arg      ratio    float omittable    how much
-- @columns  dims     name:text limit:int
-- @arg      between  text
-- @group    pairs    key:text value:bytes
-- @arg      after    bool
-- @args     edge_ids edge_id
-- @reply    OK items:list(item) ids:list(edge_id) open:pairs left:int?
-- @reply    DUPLICATE execution_id:execution_id rest:rest(name:text at:unix_ms)
-- @error    set:fenced
-- @error    invalid_input message:text
-- @error    member_of:* carries an id
-- @writes_on lease_expired core
function F.ff_everything(K, A)
  if not A.payload then return reply.err('invalid_input', 'payload') end
  if #K.dep > 9 then return reply.err('member_of:' .. A.execution_id) end
  local code = A.after and 'lease_expired' or 'stale_lease'
  return reply.err(code, K.core, K.old, K.idem, A.dims, A.dims_count, A.pairs, A.between, A.edge_ids)
end

-- @function ff_bare
-- @summary  Answers without the leading integer.
-- @key      core     exec.core
-- @reply    bare ADMITTED
-- @reply    bare LIMITED retry_after:ms
function F.ff_bare(K, A) return { 'ADMITTED' } end

-- @function ffx_take
-- @summary  A composite call.
-- @flags    readonly derives
-- @key      partition ffx.partition
-- @arg      execution_id execution_id
-- @include  request
-- @reply    OK count:group(name:text)
function F.ffx_take(K, A)
  return reply.ok(K.partition, A.lane_id, A.count, A.note)
end

-- @function ffx_version
-- @summary  Identity.
-- @flags    readonly
-- @reply    raw build:text
function F.ffx_version() return call.build end
