-- Edge groups: the rule that decides from the edges to one execution whether it may run. A group with the policy any_of or quorum
-- is a join: 1 or k successes satisfy it, and it is impossible as soon as it can no longer get that number. The policies
-- any_failure and finally are not in the contract. A group with any_failure waits for all edges, and is satisfied when one of
-- them is. So is a group with finally, whose execution runs although the flow is over (see finally). An all_of group only counts;
-- its rule is in dependency.resolve, as for an execution without a group.

local GROUP_FIELDS = {
  'policy_variant', 'on_satisfied', 'k', 'n', 'expected_edges', 'succeeded', 'failed', 'skipped', 'group_state',
  'reopened',
}
local GROUP_COUNTS = { 'n', 'expected_edges', 'succeeded', 'failed', 'skipped' }

local JOINS = { any_of = true, quorum = true, any_failure = true, finally = true }

-- The policies of joins that make up for failures of their upstreams.
local TOLERATING = { any_of = true, quorum = true }
function edge_group.tolerates(variant) return TOLERATING[variant] == true end

-- Returns the group at a key, with its counts as numbers, or nil.
function edge_group.read(group_key)
  local g = record.read(group_key, GROUP_FIELDS)
  if not g or not g.policy_variant then return nil end
  for _, field in ipairs(GROUP_COUNTS) do g[field] = tonumber(g[field]) or 0 end
  g.key = group_key
  g.is_join = JOINS[g.policy_variant] == true
  return g
end

-- Returns the group of the execution that a call concerns. `given` is the key that the caller sent. Without it, the function
-- reads only groups of managed flows, so that a call in the older form behaves as before.
function edge_group.find(c, given, child, flow_id, child_id)
  if is_set(given) then return edge_group.read(given) end
  if child and child.managed and is_set(flow_id) then return edge_group.read(key.flow_edgegroup(c, flow_id, child_id)) end
  return nil
end

-- Returns the join of an execution, or nil.
function edge_group.of(c, flow_id, child_id)
  if not is_set(flow_id) then return nil end
  local g = edge_group.read(key.flow_edgegroup(c, flow_id, child_id))
  if g and g.is_join then return g end
  return nil
end

-- Returns the policy of an execution's group; "" without a group.
function edge_group.variant(c, flow_id, execution_id)
  return redis.call('HGET', key.flow_edgegroup(c, flow_id, execution_id), 'policy_variant') or ''
end

function edge_group.is_join(c, flow_id, execution_id)
  return JOINS[edge_group.variant(c, flow_id, execution_id)] == true
end

-- Counts edges that were applied. A group that is created here is all_of. Returns the group.
function edge_group.add_edges(group_key, g, count)
  if not g then
    redis.call('HSET', group_key, 'policy_variant', 'all_of', 'n', count, 'succeeded', '0', 'group_state', 'pending')
    return edge_group.read(group_key)
  end
  redis.call('HINCRBY', group_key, 'n', count)
  g.n = g.n + count
  if not g.is_join and g.group_state == 'satisfied' then
    g.group_state = 'pending'
    redis.call('HSET', group_key, 'group_state', 'pending')
  end
  return g
end

-- Returns the error reply for an outcome for which a join has no edge left; nil when it has one.
function edge_group.check_count(g)
  local sum = g.succeeded + g.failed + g.skipped + 1
  if not g.is_join or sum <= g.n then return nil end
  return reply.err('invariant_violation',
    'edgegroup counters exceed n: ' .. number.text(sum) .. '/' .. number.text(g.n))
end

local VARIANTS = { all_of = true, any_of = true, quorum = true }
local ON_SATISFIED = { cancel_remaining = true, let_run = true }

-- Returns the policy that a call requests, or nil and the error reply.
local function parse_policy(A)
  local p = { variant = A.policy_variant, on_satisfied = A.on_satisfied or '', k = 0 }
  if not VARIANTS[p.variant] then
    return nil, reply.err('invalid_input', 'unsupported_policy_variant: ' .. tostring(p.variant))
  end
  if p.variant == 'quorum' then
    p.k = math.min(math.floor(number.finite(A.k) or 0), number.MAX_EXACT)
    if p.k < 1 then return nil, reply.err('invalid_input', 'quorum k must be >= 1') end
  end
  if JOINS[p.variant] and not ON_SATISFIED[p.on_satisfied] then
    return nil, reply.err('invalid_input',
      'on_satisfied required for any_of/quorum: cancel_remaining | let_run')
  end
  local err
  p.expected, err = number.count('expected_edges', A.expected_edges, 0)
  if err then return nil, err end
  p.expected = math.floor(p.expected)
  if p.expected > 0 and p.k > p.expected then
    return nil, reply.err('invalid_input', 'quorum k is ' .. number.digits(p.k) .. ', but only '
      .. number.digits(p.expected) .. ' edges are expected')
  end
  return p
end

local function same_policy(g, p)
  return g.policy_variant == p.variant and (g.on_satisfied or '') == p.on_satisfied
    and (tonumber(g.k) or 0) == p.k and g.expected_edges == p.expected
end

-- Writes the record of a group. `p`: variant, on_satisfied, k, expected (0 when unknown), and n, the number of its edges so far.
function edge_group.write(c, group_key, p)
  redis.call('HSET', group_key, 'policy_variant', p.variant, 'on_satisfied', p.on_satisfied,
    'k', number.digits(p.k), 'n', number.digits(p.n or 0), 'succeeded', '0', 'failed', '0', 'skipped', '0', 'group_state', 'pending',
    'created_at', c.now_text)
  if p.expected > 0 then redis.call('HSET', group_key, 'expected_edges', number.digits(p.expected)) end
end

-- @function ff_set_edge_group_policy
-- @summary  Sets the rule by which the edges to an execution let it run: all of them, any one, or k. Must be called before the
--           first of the edges is applied. With expected_edges, the group knows the final number of edges, and does not become
--           impossible before it has them.
-- @flags    derives repeatable intake
-- @key      flow            flow.core
-- @key      group           flow.edgegroup(execution_id=downstream_execution_id)
-- @arg      policy_variant  text omittable
-- @arg      on_satisfied    text optional
-- @arg      k               int optional
-- @arg      now_ms          unix_ms optional
-- @arg      expected_edges  int optional
-- @reply    OK outcome:text
-- @error    flow_not_found
-- @error    invalid_input message:text
function F.ff_set_edge_group_policy(K, A)
  local c = call.open(K.flow)
  local flow = record.read(K.flow, { 'managed' })
  if not flow then return reply.err('flow_not_found') end
  local p, err = parse_policy(A)
  if err then return err end
  local g = edge_group.read(K.group)
  if g and same_policy(g, p) then return reply.ok('already_set') end
  local child_id = string.match(K.group, ':edgegroup:(.+)$') or ''
  if (g and g.n > 0) or redis.call('EXISTS', key.exec_deps_all_edges(c, child_id)) == 1 then
    return reply.err('invalid_input', 'edge_group_policy_already_fixed: dependencies already staged')
  end
  edge_group.write(c, K.group, p)
  if p.expected == 0 then redis.call('HDEL', K.group, 'expected_edges') end
  if flow.managed then flow_record.set(K.flow, 'joins', '1') end
  return reply.ok('set')
end

local FIRED = { satisfied = true, impossible = true, cancelled = true }

-- Reports whether a join is still undecided, regardless of the counts of its edges.
function edge_group.is_open(c, flow_id, child_id)
  local g = edge_group.of(c, flow_id, child_id)
  return g ~= nil and not FIRED[g.group_state]
end

-- Reports whether a late edge has no effect, because the join has fired.
function edge_group.has_fired(g)
  return g ~= nil and g.is_join and FIRED[g.group_state] == true
end

-- Reports whether an execution may not run yet, or may never run, because of its join.
function edge_group.is_unsatisfied(g)
  return g ~= nil and g.is_join and g.group_state ~= 'satisfied'
end
