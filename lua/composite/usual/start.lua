-- The call that starts runs in the usual case.

-- Maximum number of runs in one call.
local MAX_RUNS = 64

-- Positions of arguments, and their number for each run and each tag: see ffx_start.
local COUNT_AT, REQUEST, CLASS_AT, DEADLINE_AT, ORIGIN_AT, TAGS_AT = 6, 11, 12, 13, 14, 15
local PER_RUN, PER_TAG, PER_OWN_TAG = 5, 2, 3

local ID_BYTES = run_data.PACKED_ID

-- Returns the number of elements of a group, whose count is at a position, and the position after it; nil and the error reply when
-- they do not fit the arguments.
local function group_at(args, at, width)
  local count = tonumber(args[at])
  if not count or count < 0 or count % 1 ~= 0 or at + count * width > #args then
    return nil, reply.err('invalid_input', 'the counts do not fit the arguments')
  end
  return count, at + count * width + 1
end

-- Assigns their own tags to runs. Returns nil, or the error reply.
local function read_own_tags(s, args, at, count)
  for i = 1, count do
    local from = at + (i - 1) * PER_OWN_TAG
    local run = number.finite(args[from + 1])
    if not run or not s.records[run] then
      return reply.err('invalid_input', 'a tag must name a run by its place, got: ' .. args[from + 1])
    end
    s.own_tags = s.own_tags or {}
    local tags = call.list_in(s.own_tags, run)
    tags[#tags + 1] = args[from + 2]
    tags[#tags + 1] = args[from + 3]
  end
  return nil
end

-- Reads the arguments of the runs. Returns nil, or the error reply.
local function read_runs(s, args, at, count)
  for i = 1, count do
    local root, id, record_text = args[at + 1], args[at + 2], args[at + 3]
    if string.byte(root, -22) ~= 56 or string.sub(root, -4) ~= '0001' or #id < ID_BYTES then
      return reply.err('invalid_input', 'a run must be named by its first node and its packed id, got: ' .. root)
    end
    local err = run_data.check(record_text)
    if err then return err end
    s.roots[i], s.packed[i], s.records[i], s.inputs[i], s.fair_keys[i] = root, id, record_text, args[at + 4], args[at + 5]
    if args[at + 5] ~= '' then s.has_keys = true end
    at = at + PER_RUN
  end
  return nil
end

-- Reads the arguments, before anything is written. Returns the data of the call; nil and the error reply when they are invalid.
local function parse(args)
  local tag_count, at = group_at(args, TAGS_AT, PER_TAG)
  if not tag_count then return nil, at end
  local count, own_at = group_at(args, at, PER_RUN)
  if not count then return nil, own_at end
  local own_count, err = group_at(args, own_at, PER_OWN_TAG)
  if not own_count then return nil, err end
  if count < 1 or count > MAX_RUNS then return nil, reply.err('invalid_input', 'runs must be 1 to ' .. MAX_RUNS .. ', got: ' .. count) end
  local class, origin, deadline
  class, err = run_record.class_of(args[CLASS_AT])
  if err then return nil, err end
  origin, err = run_watch.parse_origin(args[ORIGIN_AT])
  if err then return nil, err end
  deadline, err = number.optional('deadline', args[DEADLINE_AT], nil)
  if err then return nil, err end
  local s = usual_start.new(class, origin, count)
  s.deadline_at = deadline
  if tag_count > 0 then s.tags = { unpack(args, TAGS_AT + 1, TAGS_AT + PER_TAG * tag_count) } end
  err = read_runs(s, args, at, count) or read_own_tags(s, args, own_at, own_count)
  if err then return nil, err end
  return s
end

-- Returns the runs that exist already, or come twice, by their places; nil when all are new. Where a partition has flows of the
-- contract's calls, one of them may have the id of a run.
local function find_existing(s)
  local keys, count, existing, seen = s.keys, s.count, nil, nil
  for n = 1, #s.groups do keys[count + n] = key.index_flow_index(s.groups[n].here.c) end
  if redis.call('EXISTS', unpack(keys)) > 0 then
    for n = 1, #s.groups do
      local members, c = s.groups[n], s.groups[n].here.c
      for m = 1, #members do
        local i = members[m]
        if redis.call('EXISTS', keys[i], key.flow_core(c, s.ids[i])) > 0 then
          existing = existing or {}
          existing[i] = true
        end
      end
    end
  end
  if count == 1 then return existing end
  seen = {}
  for i = 1, count do
    if seen[keys[i]] then
      existing = existing or {}
      existing[i] = true
    end
    seen[keys[i]] = true
  end
  return existing
end

-- Returns the runs of a partition that do not exist.
local function without(members, existing)
  local others = { here = members.here, known = nil, nil, nil, nil, nil }
  for n = 1, #members do
    if not existing[members[n]] then others[#others + 1] = members[n] end
  end
  return others
end

-- Finds the partitions of the runs, and gives each partition its new runs. Returns those that are not new (see find_existing).
local function group(s)
  local by_here, groups, last, members = {}, s.groups, nil, nil
  for i = 1, s.count do
    local root = s.roots[i]
    local here, flow_id = turn.enter(s.x, root), row.run_id(root)
    s.ids[i], s.keys[i] = flow_id, key.flow_nodes(here.c, flow_id)
    if here ~= last then
      last, members = here, by_here[here]
      if not members then
        members = { here = here, known = nil, nil, nil, nil, nil }
        by_here[here], groups[#groups + 1] = members, members
      end
    end
    members[#members + 1] = i
  end
  local existing = find_existing(s)
  for n = 1, existing and #groups or 0 do groups[n] = without(groups[n], existing) end
  return existing
end

-- Leases executions to the worker that sends the call, in addition to the roots that it has. When runs existed before, an earlier
-- try of the call may have leased some.
local function claim_others(c, s, request, existed)
  local x = s.x
  if existed or request.repeated then
    request.repeated = true
    return claiming.claim(c, request, x)
  end
  if s.entered > 0 then request.drained = nil end
  if #x.leased < x.room and (s.entered > 0 or x.urgent or not x.looked) then claiming.fill(c, request, x) else turn.write(x) end
  return x.leased
end

-- The request of a call without a claim.
local NO_REQUEST = { count = 0, ttl = 0, kinds = '' }

-- Returns a digit for each run: 1 if it was created, and else 0; "" when all were.
local function outcomes_of(s, existing, others)
  if not existing and not others then return '' end
  local digits = {}
  for i = 1, s.count do
    digits[i] = (existing and existing[i] or others and others[i]) and '0' or '1'
  end
  return table.concat(digits)
end

-- @function ffx_start
-- @summary  Creates runs of one class in the usual case, as ffx_submit does, and leases the worker of the call up to `count`
--           executions that come next. On a server that has all partitions, the runs may be of any of them. A run is named by the
--           execution of its first node, and by its id in bytes, without the last four digits, followed by the id that programs
--           know it by: a byte 0 and the 16 bytes of a UUID in lower case, else the first 40 bytes. `outcomes` is empty when all
--           runs were created; otherwise it has a digit for each: 1 if the run was created, and 0 if ffx_submit has to decide on
--           it, because the run exists, the partition does not have its graph, or the graph has joins, waitpoints, roots that
--           begin later, or more than 32 nodes.
-- @flags    derives repeatable intake positional
-- @key      partition          ffx.partition
-- @include  claim_request
-- @arg      class              bytes<plain>
-- @arg      deadline           ms optional
-- @arg      origin             text optional
-- @group    tags               name:text value:text
-- @group    runs               root:any_execution_id id:bytes<plain> record:bytes<plain> input:value<input> fair_key:text
-- @group    own_tags           run:int name:text value:text
-- @reply    OK outcomes:text remaining:int executions:list(claimed_execution) candidates:list(candidate)
-- @error    invalid_input message:text
-- @error    value_missing
-- @error    invalid_capabilities reason:text
function F.ffx_start(keys, args)
  local s, err = parse(args)
  if err then return err end
  local request = nil
  if args[COUNT_AT] ~= '0' then
    request, err = claim_request.of(unpack(args, 1, REQUEST))
    if err then return err end
    request.skip_abandoned = true
  end
  local c = call.open(keys[1])
  err = stored_value.refuse(c, s.inputs)
  if err then return err end
  s.x = turn.new(c, request or NO_REQUEST)
  if s.deadline_at then s.deadline_at = c.now + s.deadline_at end
  local existing = group(s)
  s.may_lease = request ~= nil and not existing and not request.repeated
  local others = usual_start.create(s)
  local executions, remaining = '', '0'
  if request then
    executions = claim_others(c, s, request, existing ~= nil)
    remaining = claiming.remaining(c, request)
  else
    turn.write(s.x)
  end
  settle.run(c)
  return reply.ok(outcomes_of(s, existing, others), remaining, executions, request and request.candidates or '')
end
