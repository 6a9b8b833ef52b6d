-- The results of the items of a map, which together become the result of its node. An item whose result makes them too large for
-- one is not completed, but fails, so that items that have not started do not run in vain.
--
-- Only the interpreter keeps the number of bytes of the results, so a completion costs no additional command. They are counted
-- from the first item on; a map whose count is lost, for example by a start of the server, fails when all of its items have
-- ended. A count may be too high, since items can be run again, so the results are read before it has effect.

-- Maximum size of a result, as MaxResult in internal/submit/plan.go.
local MAX_RESULT_BYTES = 1048576

-- Bytes of the results of maps, by the keys of their results, each with a byte for the separator after it in the list: first the
-- maps that were counted last, then those before them.
local recent, older, recent_count = {}, {}, 0
local MAX_RECENT = 1024

local function keep(results_key, bytes)
  if not recent[results_key] then
    if recent_count == MAX_RECENT then
      older = recent
      recent, recent_count = {}, 0
    end
    recent_count = recent_count + 1
  end
  recent[results_key] = bytes
end

-- Returns the bytes of the stored results of a run, and their number.
local function read(run, results_key)
  local list = redis.call('HGETALL', results_key)
  local bytes, count = 0, #list / 2
  for i = 2, #list, 2 do bytes = bytes + stored_value.size(list[i]) + 1 end
  for _, text in pairs(run_data.has_results(run) and run_data.results(run) or {}) do
    bytes, count = bytes + stored_value.size(text) + 1, count + 1
  end
  return bytes, count
end

-- Counts the result of an item of a run that is about to end, while `open` others are open. Returns the error reply if it makes the
-- results too large. `run` is a run or the record of a plain one.
function item_results.add(run, results_key, result, open)
  local count = run.count
  local before = open == count - 1 and 0 or recent[results_key] or older[results_key]
  if not before then return nil end
  local size, ended = stored_value.size(result) + 1, nil
  if before + size >= MAX_RESULT_BYTES then
    before, ended = read(run, results_key)
    if before + size >= MAX_RESULT_BYTES then
      return reply.err('results_too_large', number.text(ended + 1), number.text(count), number.text(before + size),
        number.text(MAX_RESULT_BYTES))
    end
  end
  keep(results_key, before + size)
end

-- Does the same for an item whose run is not plain. It does nothing for runs whose results do not form one list.
function item_results.add_unusual(c, core, result)
  local flow = core.managed and flow_record.read(c, core.flow_id)
  local run = flow and flow.fail_fast and not flow_record.is_over(flow) and row.run(c, core.flow_id)
  if not run then return nil end
  local open = row.open(run) - (c.ends and c.ends[core.flow_id] or 0)
  return item_results.add(run, row.results_key(run), result, open - 1)
end
