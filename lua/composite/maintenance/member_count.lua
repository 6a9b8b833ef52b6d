-- Counts the members of runs that are too large for one call. The caller passes the counts on from page to page. When the run
-- changes between two pages they are dropped, and the next pass counts again; a run that keeps changing is not counted.

local COUNTED = { 'all', 'open', 'success', 'failed', 'expired', 'cancelled', 'skipped', 'unread' }

-- Returns a text that changes with every step of a run: the number of its events, and the counters of its members.
local function mark_of(c, flow_id, flow)
  local parts = { number.text(event_log.count(c, flow_id)) }
  for _, field in ipairs({ 'open_nodes', 'nodes_failed', 'nodes_expired', 'nodes_cancelled', 'nodes_skipped', 'graph_revision', 'closed_at' }) do
    parts[#parts + 1] = flow[field] or ''
  end
  return table.concat(parts, '/')
end

-- Packs the counts between two calls: "<scan>,<count>,…,<mark>".
local function pack(page, counts, mark)
  local parts = { page }
  for _, name in ipairs(COUNTED) do parts[#parts + 1] = number.text(counts[name] or 0) end
  parts[#parts + 1] = mark
  return table.concat(parts, ',')
end

local function unpack_counts(inner)
  local parts = {}
  for part in string.gmatch(inner, '[^,]+') do parts[#parts + 1] = part end
  local counts = { all = 0, open = 0 }
  for i, name in ipairs(COUNTED) do counts[name] = tonumber(parts[i + 1]) or 0 end
  return parts[1] or '0', counts, parts[#COUNTED + 2]
end

-- Counts one page of a run. Returns the place to continue from, nil when the run is done.
local function count(c, work, flow_id, inner, more_than)
  local flow = repair_flow.read(c, flow_id)
  if not flow or not flow.managed or flow.purging or is_set(flow.rerun_state) then return nil end
  local size = member_list.count(c, flow_id)
  if size <= more_than or is_set(flow.closed_at) and flow.open_nodes == '0' and size == tonumber(flow.node_count) then return nil end
  work.large = work.large + 1
  local mark = mark_of(c, flow_id, flow)
  local from, counts, before = unpack_counts(inner)
  if before and before ~= mark then return nil end
  local page, rest = member_list.page(c, flow_id, from, work.limit)
  run_rows.load(c, page)
  for _, execution_id in ipairs(page) do repair_flow.member(c, 'member_reconciliation', flow_id, flow, execution_id, counts) end
  work.checked = work.checked + #page
  flow = repair_flow.read(c, flow_id)
  if c.queue or not flow or mark_of(c, flow_id, flow) ~= mark then return nil end
  if rest ~= '0' then return pack(rest, counts, mark) end
  repair_flow.correct_counts(c, flow_id, flow, counts)
end

-- @function ffx_count_members
-- @summary  Enters the members of runs that have more than `more_than` of them into their indexes, and corrects the counters of
--           those runs; ffx_reconcile does so with smaller ones. Checks about `limit` members per call: continue with next_cursor
--           until it is empty. `large` counts such runs, `repaired` counts the corrections by index.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      limit              int
-- @arg      more_than          int
-- @arg      cursor             text optional
-- @reply    OK next_cursor:text checked:int large:int repaired:list(repaired_index) faults:list(item_fault)?
-- @error    invalid_input message:text
function F.ffx_count_members(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local more_than
  more_than, err = number.whole('more_than', A.more_than)
  if err then return err end
  local c = call.open_guarded(K.partition)
  local work = scan.begin(limit)
  work.large = 0
  local cursor = scan.list(c, 'member_reconciliation', work, key.ffx_all_runs(c), A.cursor or '', function(flow_id, inner)
    return count(c, work, flow_id, inner, more_than)
  end)
  settle.run(c)
  return reply.ok(cursor, number.text(work.checked), number.text(work.large), repair_index.report(c), c.faults)
end
