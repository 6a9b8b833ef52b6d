-- Decisions: the results of condition nodes, {"case":"<name>","number":<n>}. An edge of the kind case_<n> from such a node is
-- satisfied when the node decided for its n-th case. After a decision for another case the edge is not satisfied, and its
-- downstream node is skipped. An edge of the kind unless_failed is satisfied when its upstream succeeded, or was skipped for such a
-- reason; the latter has no result.

-- Maximum number of cases of one condition: the number of a case has five bits in the flags of an edge.
decision.MAX_CASES = 31

-- The numbers of cases by the kinds of edges, and the reverse.
local NUMBERS, KINDS = {}, {}

-- The kinds whose edges depend on more than the outcome of their upstream: a kind of a case has its number.
local UNLESS_FAILED = 0
local OTHERS = { unless_failed = UNLESS_FAILED }
for n = 1, decision.MAX_CASES do
  KINDS[n] = 'case_' .. n
  NUMBERS[KINDS[n]], OTHERS[KINDS[n]] = n, n
end

-- The kind of the edges of the n-th case.
function decision.kind(n) return KINDS[n] end

-- Returns the number of the case to which a kind of edges belongs; nil for other kinds.
function decision.case_of_kind(kind) return NUMBERS[kind] end

-- Reports whether edges of a kind follow another rule than success_only.
function decision.has_verdict(kind) return dependency.SATISFYING[kind] ~= nil or NUMBERS[kind] ~= nil end

-- Returns the number of the case that a result decides for; nil for another result, and without a result.
function decision.number_in(text)
  return text and tonumber(string.match(text, '"number":(%d+)}$') or nil) or nil
end

-- Returns the outcome that an edge of a managed flow counts for an ended upstream, as dependency.verdict does. `facts` are two
-- functions: number_of returns the number of the decided case, and is called only for edges of cases; reason_of returns the reason
-- of a skip, nil for one in consequence of a failure, and is called only for edges of the kind unless_failed.
function decision.verdict_by(kind, outcome, facts, ...)
  local wanted = OTHERS[kind]
  if not wanted then return dependency.verdict(kind, outcome) end
  if wanted == UNLESS_FAILED then
    return outcome == 'skipped' and facts.reason_of(...) and 'success' or dependency.verdict(kind, outcome)
  elseif outcome ~= 'success' then
    return dependency.verdict(kind, outcome)
  end
  return facts.number_of(...) == wanted and 'success' or 'skipped'
end

-- Returns the result of an execution, which the current call may contain.
local function result_of(c, execution_id)
  return c.completed and c.completed[execution_id] or results.read(c, execution_id)
end

local function number_of(c, upstream_id) return decision.number_in(result_of(c, upstream_id)) end

-- Returns the reason of a skipped execution, nil for one that was skipped in consequence of a failure.
local function reason_of(c, upstream_id)
  local reason = record.value(key.exec_core(c, upstream_id), 'failure_reason')
  return is_set(reason) and reason or nil
end

local OF_ID = { number_of = number_of, reason_of = reason_of }

-- Does the same for an upstream that is given by its id.
function decision.verdict(c, kind, outcome, upstream_id)
  return decision.verdict_by(kind, outcome, OF_ID, c, upstream_id)
end

-- Returns the number of the case that an ended node decided for, and keeps it for all edges of the node. `item` is the node's
-- item in a wave.
local function number_of_item(c, item)
  local known = item.case_number
  if known == nil then
    known = number_of(c, item.execution_id) or false
    item.case_number = known
  end
  return known
end

local OF_ITEM = {
  number_of = number_of_item,
  reason_of = function(c, item) return item.reason or reason_of(c, item.execution_id) end,
}

-- Does the same for an item of a wave.
function decision.verdict_of_item(c, kind, item) return decision.verdict_by(kind, item.outcome, OF_ITEM, c, item) end

-- Returns the name of a node; the id of an execution that does not belong to a graph.
local function node_name(c, execution_id)
  return record.value(key.exec_core(c, execution_id), 'node') or execution_id
end

-- Returns the reason why an edge is not satisfied, "condition <node> of node <upstream> is <case>", when its upstream has decided
-- for another case or was itself skipped for such a reason. Returns nil for other edges.
function decision.reason(c, kind, item)
  if item.outcome == 'skipped' then return item.reason end
  if not NUMBERS[kind] or item.outcome ~= 'success' then return nil end
  if item.case_reason then return item.case_reason end
  local name = string.match(result_of(c, item.execution_id) or '', '^{"case":"([^"]*)"') or '?'
  local upstream_id = adjacency.upstream(c, item.flow_id, item.execution_id)[1]
  local node, upstream = node_name(c, item.execution_id), upstream_id and node_name(c, upstream_id)
  item.case_reason = 'condition ' .. node .. ' of ' .. (upstream and 'node ' .. upstream or 'the input') .. ' is ' .. name
  return item.case_reason
end
