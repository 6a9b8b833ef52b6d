-- The lists of edges in the nodes of graphs.

-- An edge in the lists of a node: the other node's ordinal, and flags.
local EDGE, EDGE_BYTES = '<HB', 3
edge_list.EDGE_BYTES = EDGE_BYTES

-- Flags of an edge: its kind in the lowest two bits, and CARRIES if it carries the upstream's result, under the upstream's name. An edge
-- of the fourth kind with a number in the bits above is of the case of a condition with this number, and carries nothing.
local KINDS = { [0] = 'success_only', [1] = 'on_failure', [2] = 'always', [3] = 'unless_failed' }
local CASE, CARRIES, CASE_STEP = 3, 4, 8

-- The kinds of edges, and whether they carry results, by their flags.
local KIND_OF, IS_CARRYING = {}, {}
for flags = 0, #KINDS do
  KIND_OF[flags], KIND_OF[flags + CARRIES] = KINDS[flags], KINDS[flags]
  IS_CARRYING[flags], IS_CARRYING[flags + CARRIES] = false, true
end
for n = 1, decision.MAX_CASES do
  KIND_OF[CASE + n * CASE_STEP], IS_CARRYING[CASE + n * CASE_STEP] = decision.kind(n), false
end

-- The i-th edge of a list: the ordinal of the other node, the kind, and whether it carries the result.
function edge_list.edge(list, i)
  local ordinal, flags = struct.unpack(EDGE, list, (i - 1) * EDGE_BYTES + 1)
  return ordinal, KIND_OF[flags], IS_CARRYING[flags]
end

-- Edges that every success satisfies.
edge_list.SATISFIED_BY_SUCCESS = { success_only = true, always = true, unless_failed = true }
