-- How runs may arrive: by a key, at a limited rate, or gathered with others. A call that submits such a run submits no other.

local WHEN_TAKEN = { reject = true, queue = true, join = true, cancel = true }

-- Maximum number of open runs of a key, of counted starts, and of gathered inputs.
local MOST = { at_once = 1000, max_inputs = 10000 }
local MOST_STARTS = 10000

-- Maximum for each of the times (ms): ten years.
local MAX_MS = 316224000000

local NUMBERS = { 'at_once', 'unique_for', 'quiet', 'at_most', 'max_inputs' }

local function refuse(name, rule, value)
  return reply.err('invalid_input', name .. ' must be ' .. rule .. ', got: ' .. tostring(value))
end

-- Checks that the settings of an arrival fit together. Returns nil, or the error reply.
local function check(A, a)
  if #A.runs ~= 1 or a.run ~= '1' then return refuse('an arrival', 'of the one run of its call', a.run) end
  if #A.signals + #A.fires + #A.parents > 0 then
    return reply.err('invalid_input', 'a run with an arrival has no signal, fire or parent')
  end
  if a.at_once > 0 and not WHEN_TAKEN[a.when_taken] then
    return refuse('when_taken', 'reject, queue, join or cancel', a.when_taken)
  elseif a.windows and a.when_many ~= 'delay' and a.when_many ~= 'reject' then
    return refuse('when_many', 'delay or reject', a.when_many)
  elseif a.quiet > 0 and (a.at_most < a.quiet or not is_set(a.call_id)) then
    return refuse('at_most', 'at least quiet', a.at_most)
  elseif a.quiet > 0 and #A.budgets > 0 then
    return reply.err('invalid_input', 'a debounced run has no budgets of its own')
  end
  local ways = (a.at_once + a.unique_for > 0 and 1 or 0) + (a.windows and 1 or 0) + (a.quiet > 0 and 1 or 0)
  if ways ~= 1 or ways == 1 and is_set(A.start_at) then return refuse('an arrival', 'of one kind, without start_at', ways) end
  return nil
end

-- Returns the arrival of the call's run, to be stored with the run; nil for most calls. Returns nil and the error reply when it
-- is invalid. The run gets the fields of its record.
function arrival.parse(A)
  local a = A.arrivals and A.arrivals[1]
  if not a then return nil, not A.arrivals and reply.err('invalid_input', 'the counts do not fit the arguments') or nil end
  for _, name in ipairs(NUMBERS) do
    local value, err = number.count(name, a[name])
    if err then return nil, err end
    if value > (MOST[name] or MAX_MS) then return nil, refuse(name, 'at most ' .. number.digits(MOST[name] or MAX_MS), a[name]) end
    a[name] = value
  end
  local text = a.windows
  a.windows = is_set(text) and throttle.windows(text, MOST_STARTS, MAX_MS) or nil
  if is_set(text) and not a.windows then return nil, refuse('windows', 'up to 8 of up to 10000 starts within a time', text) end
  local err = #A.arrivals > 1 and refuse('arrivals', 'one', #A.arrivals) or check(A, a)
  if err then return nil, err end
  local run = A.runs[1]
  for name, value in pairs(run_data.decode(run.record, run.flow_id)) do run[name] = value end
  run.arrival = a
  return a
end

-- Judges a new run. Returns its outcome when it is not to be created, else nil.
function arrival.judge(c, A, n, run)
  local a, outcome = run.arrival, nil
  if a.quiet > 0 then
    outcome = debounce.judge(c, A, n, run, a)
  elseif a.windows then
    outcome = throttle.judge(c, n, run, a)
  else
    outcome = run_key.judge(c, n, run, a)
  end
  if not outcome and n.deadline then n.deadline_at = (n.start_at or c.now) + n.deadline end
  return outcome
end

-- Checks whether runs of a graph can arrive in this way. Returns nil, or the error reply.
function arrival.check_graph(g, run)
  if run.arrival.windows then return nil end
  local roots = #graph_store.roots(g)
  if roots <= run_key.MAX_ROOTS then return nil end
  return reply.err('invalid_input', 'a run with a key or a debounce may have ' .. run_key.MAX_ROOTS ..
    ' nodes without upstreams, got: ' .. roots)
end

-- Returns the additional fields in the record of a run, as a list of names and values.
function arrival.fields(run)
  local a = run.arrival
  if a.at_once == 0 then return { 'run_key', a.key } end
  return { 'run_key', a.key, 'run_key_id', a.key_id, 'at_once', number.text(a.at_once), 'queued', run.queued or '' }
end

-- Records the arrival of a run that was created, with its record and rows.
function arrival.created(c, A, n, run)
  local a = run.arrival
  if a.quiet > 0 then
    debounce.created(c, n, run, a)
  elseif a.windows then
    throttle.created(c, run, a)
  else
    run_key.created(c, run, a, run.creator_identity)
  end
end
