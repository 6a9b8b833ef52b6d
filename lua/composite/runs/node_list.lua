-- The nodes of runs, as executions of a partition are listed and read.

-- Maximum number of nodes that one call returns.
local MAX_PAGE = 1000

-- Maximum number of runs without nodes that one call passes, and number of entries that it reads at once.
local MAX_RUNS, RUNS_AT_A_TIME = 200, 20

-- @record node_id execution_id:execution_id

-- Adds the ids of nodes of a run from an ordinal on; not if its time in the lists is another than a given one. Returns the ordinal
-- after the last, nil when that is all.
local function add_nodes(c, ids, flow_id, from, limit, at)
  local run = row.run(c, flow_id)
  if not run or row.is_purging(run) or at and run.listed ~= at then return nil end
  local to = math.min(run.count, from + limit - #ids - 1)
  for ordinal = math.max(1, from), to do ids[#ids + 1] = { row.execution_id(run, ordinal) } end
  return to < run.count and to + 1 or nil
end

-- Lists the nodes of all runs, the newest run first. Returns the next cursor, "" at the end: the time of the last entry, its run,
-- and the ordinal of the next node, 0 when it has no more.
local function list_all(c, ids, cursor, limit)
  local list_key = key.ffx_all_runs(c)
  local at, flow_id, from = string.match(cursor, '^(%d+) (%S+) (%d+)$')
  local function next_cursor(rest) return number.digits(at) .. ' ' .. flow_id .. ' ' .. number.text(rest or 0) end
  at = tonumber(at)
  if at and from ~= '0' then
    local rest = add_nodes(c, ids, flow_id, tonumber(from), limit, at)
    if rest then return next_cursor(rest) end
  end
  local rank = at and run_entries.rank_in(list_key, at, false) or 0
  for _ = 1, MAX_RUNS / RUNS_AT_A_TIME do
    local page = run_entries.page(list_key, rank, RUNS_AT_A_TIME, false)
    for i = 1, #page do
      if #ids >= limit then return next_cursor() end
      at, flow_id = run_entries.read(page[i])
      local rest = add_nodes(c, ids, flow_id, 1, limit, at)
      if rest then return next_cursor(rest) end
    end
    if #page < RUNS_AT_A_TIME then return '' end
    rank = rank + RUNS_AT_A_TIME
  end
  return next_cursor()
end

-- @function ffx_list_nodes
-- @summary  Returns ids of the nodes of runs in one partition, in pages: of one run, or of all. Executions that were created call
--           by call are not among them.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      cursor             text optional
-- @arg      limit              int
-- @arg      flow_id            flow_id optional
-- @reply    OK nodes:list(node_id) next_cursor:text
-- @error    invalid_input message:text
function F.ffx_list_nodes(K, A)
  local limit, err = number.whole('limit', A.limit)
  if err then return err end
  local c, ids = call.open(K.partition), {}
  limit = math.max(1, math.min(limit, MAX_PAGE))
  if is_set(A.flow_id) then
    local rest = add_nodes(c, ids, A.flow_id, number.place(A.cursor) or 1, limit)
    return reply.ok(ids, rest and number.text(rest) or '')
  end
  return reply.ok(ids, list_all(c, ids, A.cursor or '', limit))
end

-- @record read_execution execution_id:execution_id values:pairs tags:pairs

-- Returns the tags of an execution: its node's tags, and those that were added to it.
local function tags_of(c, execution_id)
  local r = row.of_key(key.exec_core(c, execution_id))
  local tags = r and record.tags_of(graph_store.of_row(r).tags) or {}
  for _, text in ipairs(redis.call('HGETALL', key.exec_tags(c, execution_id))) do tags[#tags + 1] = text end
  return tags
end

-- Returns the value of a field of an execution, whose record is given; nil without one.
local function value_of(c, execution_id, record_of, field)
  if field == 'result' then return results.read(c, execution_id) or nil end
  return record_of[field]
end

-- @function ffx_read_executions
-- @summary  Returns fields and tags of executions of one partition; the field `result` is the result. Missing executions are left
--           out.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      fields             csv
-- @args     executions         execution_id
-- @reply    OK executions:list(read_execution)
function F.ffx_read_executions(K, A)
  local c, fields, found = call.open(K.partition), {}, {}
  for field in string.gmatch(A.fields, '[^,]+') do fields[#fields + 1] = field end
  for _, execution_id in ipairs(A.executions) do
    local record_of = record.read(key.exec_core(c, execution_id), fields)
    if record_of then
      local values = {}
      for _, field in ipairs(fields) do
        local value = value_of(c, execution_id, record_of, field)
        if value then
          values[#values + 1] = field
          values[#values + 1] = value
        end
      end
      found[#found + 1] = { execution_id, values, tags_of(c, execution_id) }
    end
  end
  return reply.ok(found)
end
