-- The edges that lead to the joins of runs: a string for each join with a byte for each node of the graph, at its ordinal, that
-- contains the state of the edge from it.

local SATISFIED, LATE = 's', 'l'
local LETTER = { success = SATISFIED, failed = 'f', cancelled = 'c', expired = 'x', skipped = 'k' }
local OUTCOME = { f = 'failed', c = 'cancelled', x = 'expired', k = 'skipped' }

-- Returns the key of the states of a join's edges. `run` is a run or the record of a plain one, and `stem` the beginning of the ids
-- of its executions.
local function key_of(run, stem, suffix) return string.sub(run.key, 1, -6) .. 'join:' .. stem .. suffix end

local function states_key(r) return key_of(r.run, r.run.stem, row.suffix(r.ordinal)) end

local function letter_of(r, upstream)
  return redis.call('GETRANGE', states_key(r), upstream, upstream)
end

-- Records that the edge from an upstream to a join of a plain run is satisfied, before or after the decision of the join.
function row_joins.note_success(run, stem, node, upstream, is_late)
  redis.call('SETRANGE', key_of(run, stem, node.suffix), upstream.ordinal_text, is_late and LATE or SATISFIED)
end

-- Records that such an upstream was cancelled.
function row_joins.note_cancel(run, stem, node, upstream)
  redis.call('SETRANGE', key_of(run, stem, node.suffix), upstream.ordinal_text, LETTER.cancelled)
end

-- Reports whether an upstream's result is an input of its join: it existed when the join was satisfied.
function row_joins.feeds(r, upstream) return letter_of(r, upstream) == SATISFIED end

-- Reports whether the edge from an upstream to a join is satisfied.
function row_joins.is_satisfied(r, upstream)
  local letter = letter_of(r, upstream)
  return letter == SATISFIED or letter == LATE
end

local function state_of(letter)
  if letter == SATISFIED then return { state = 'satisfied' } end
  if letter == LATE then return { state = 'satisfied', late = '1' } end
  if OUTCOME[letter] then return { state = 'impossible', outcome = OUTCOME[letter] } end
  return { state = 'unsatisfied' }
end

function row_joins.read(r, k) return state_of(letter_of(r, k.node_edge.upstream)) end

local function write(r, upstream, letter) redis.call('SETRANGE', states_key(r), upstream, letter) end

function row_joins.write(r, _, k, satisfied, outcome)
  write(r, k.node_edge.upstream, LETTER[satisfied and 'success' or outcome] or 'f')
end

function row_joins.mark_late(r, _, k) write(r, k.node_edge.upstream, LATE) end

function row_joins.close_edge(r)
  r.open = math.max(0, r.open - 1)
  row.touch(r)
end

function row_joins.close_edges(r)
  r.open = 0
  row.touch(r)
end

-- Calls a function with each upstream of a join, the kind of its edge, and its letter.
local function each(r, visit)
  local ups, letters = graph_store.of_row(r).ups, redis.call('GET', states_key(r)) or ''
  for i = 1, graph_store.edge_count(ups) do
    local upstream, kind = graph_store.edge(ups, i)
    visit(upstream, kind, string.sub(letters, upstream + 1, upstream + 1))
  end
end

function row_joins.ended(r, k)
  local ended = {}
  if graph_store.edge_count(graph_store.of_row(r).ups) > call.WORK_BUDGET then return ended end
  each(r, function(upstream, kind, letter)
    local dep = state_of(letter)
    local up = row.at(r.run, upstream)
    if dep.state == 'unsatisfied' and up.phase == 4 then
      ended[#ended + 1] = {
        k = { core = k.core, node_edge = { upstream = upstream } }, dep = dep,
        outcome = row_decision.verdict(up, kind),
      }
    end
  end)
  return ended
end

function row_joins.recount(r, of_records)
  local satisfied, open, parts = 0, 0, {}
  each(r, function(upstream, _, letter)
    if letter == SATISFIED or letter == LATE then
      satisfied = satisfied + 1
      parts[#parts + 1] = upstream
    else
      open = open + 1
    end
  end)
  redis.call('DEL', states_key(r))
  for _, upstream in ipairs(parts) do write(r, upstream, SATISFIED) end
  r.open = open + of_records
  row.touch(r)
  return satisfied, r.open
end

-- Returns the states of the edges of the graph that lead to a join, in their order.
function row_joins.states(r)
  local states = {}
  each(r, function(_, _, letter) states[#states + 1] = state_of(letter) end)
  return states
end

-- Marks edges to a join as satisfied, regardless of their states.
function row_joins.satisfy(r, upstreams)
  local letters = redis.call('GET', states_key(r)) or ''
  for _, upstream in ipairs(upstreams) do
    local letter = string.sub(letters, upstream + 1, upstream + 1)
    if letter ~= SATISFIED and letter ~= LATE then write(r, upstream, SATISFIED) end
  end
end

-- Clears the states of the edges of a join that begins anew.
function row_joins.forget(r) redis.call('DEL', states_key(r)) end
