-- Counting the nodes of runs that are in no index of their lane: those that run, and those that wait for upstreams.

-- Rows that cost as much as a run that is looked at.
local ROWS_PER_LOOK = 16

-- @record lane_nodes lane_id:lane_id active:int blocked_dependencies:int

-- Counts nodes of one run from an ordinal on. Gives the ordinal to go on with, nil when that is all.
local function count_run(c, work, flow_id, inner, add)
  if redis.call('ZSCORE', key.ffx_closed_flows(c), flow_id) then return nil end
  local from = math.max(1, number.place(inner) or 1)
  local looked_at, rest = run_rows.count_states(c, flow_id, from, (work.limit - work.checked + 1) * ROWS_PER_LOOK, add)
  work.checked = work.checked + math.floor(looked_at / ROWS_PER_LOOK)
  return rest and number.text(rest)
end

-- @function ffx_count_lane_nodes
-- @summary  How many nodes of the runs of a partition run in each lane, and how many wait there for upstreams. Looks at a bounded
--           number per call, which counts those: go on with next_cursor until it is empty. Executions that were created call by
--           call are in the counts of ffx_lanes.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      cursor             text optional
-- @reply    OK lanes:list(lane_nodes) next_cursor:text
function F.ffx_count_lane_nodes(K, A)
  local c = call.open(K.partition)
  local work, lanes, list = scan.begin(math.huge), {}, {}
  local function add(lane, place)
    local counts = lanes[lane]
    if not counts then
      counts = { lane, 0, 0 }
      lanes[lane], list[#list + 1] = counts, counts
    end
    counts[place] = counts[place] + 1
  end
  local cursor = scan.set(work, key.index_flow_index(c), A.cursor or '', function(flow_id, inner)
    return count_run(c, work, flow_id, inner, function(lane, is_active) add(lane, is_active and 2 or 3) end)
  end)
  for _, counts in ipairs(list) do counts[2], counts[3] = number.text(counts[2]), number.text(counts[3]) end
  return reply.ok(list, cursor)
end
