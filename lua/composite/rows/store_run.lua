-- The store of runs with rows: see flow_store.lua. A function that is not here is in the named file.
--
-- Reads the fields of a flow's core from the header of its rows, from its class, its record and its graph. The
-- fields of the header are written there. Other changes are in the hash of the run, its overlay, which few runs have: a flag of the header
-- records that.

-- How fields are read: a function of the run for each. A field without a result does not exist.
local READ = {}

-- How they are written: with the text, or nil when the field is unset.
local WRITE = {}

-- Fields of which the overlay has the value that counts, if it has one.
local BASE = {}

local function state_field(field, column, values)
  local numbers = {}
  for i = 1, #values do numbers[values[i]] = i end
  READ[field] = function(run)
    local text = values[run[column]]
    return text ~= 'none' and text or nil
  end
  WRITE[field] = function(run, text)
    run[column] = numbers[is_set(text) and text or 'none'] or error(field .. ' cannot be ' .. tostring(text))
  end
end

-- Times (Unix ms); 0 is none.
local function time_field(field, column)
  READ[field] = function(run)
    local at = run[column]
    return at > 0 and number.time(at) or nil
  end
  WRITE[field] = function(run, text) run[column] = tonumber(text) or 0 end
end

-- Counts; 0 is none.
local function count_field(field, column)
  READ[field] = function(run)
    local n = run[column]
    return n > 0 and number.text(n) or nil
  end
  WRITE[field] = function(run, text) run[column] = math.min(tonumber(text) or 0, 65535) end
end

function READ.managed() return '1' end
function READ.created_at(run) return number.time(run.created) end

function READ.open_nodes(run) return number.text(row.open(run)) end

-- The time of the last change other than an end is not kept.
function READ.last_mutation_at(run) return number.time(math.max(run.created, run.ended)) end

-- Since when a run is being purged is not kept.
function READ.purging(run) return row.is_purging(run) and '1' or nil end
function WRITE.purging(run)
  if not row.is_purging(run) then run.flags = run.flags + run_head.PURGING end
end

function READ.children(run) return row.has_children(run) and '1' or nil end
function WRITE.children(run, text)
  if is_set(text) ~= row.has_children(run) then run.marks = run.marks + (is_set(text) and 1 or -1) * run_head.CHILDREN end
end

-- Returns the head fields of a run's graph; nil when the graph is missing.
local function graph_head(run) return graph_store.head(graph_store.of_run(run)) end

function BASE.node_count(run) return number.text(run.count) end

function BASE.edge_count(run)
  local head = graph_head(run)
  return head and head.edges > 0 and number.text(head.edges) or nil
end

function BASE.graph_revision(run)
  local head = graph_head(run)
  return number.text(run.count + (head and head.edges or 0))
end

local function class_field(field)
  BASE[field] = function(run) return run_class.of_run(run)[field] end
end

local function record_field(field)
  BASE[field] = function(run) return run_data.fields(run)[field] end
end

local function define()
  state_field('public_flow_state', 'state', run_head.STATE)
  state_field('outcome', 'outcome', run_head.OUTCOME)
  time_field('closed_at', 'ended')
  time_field('deadline_at', 'deadline')
  count_field('ends', 'ends')
  count_field('told', 'told')
  local of_class = { 'flow_kind', 'namespace', 'graph_hash', 'retention', 'priority' }
  for i = 1, #of_class do class_field(of_class[i]) end
  for i = 1, #run_data.NAMES do record_field(run_data.NAMES[i]) end
  function BASE.input_hash(run) return run_data.hash_text(run_data.fields(run).input_hash) end
end
define()

-- Returns the head fields of a run's graph when all runs of the graph have budgets, and the run has no others.
local function budgets_of_graph(run)
  local head = row.is_special(run.flags) and graph_head(run)
  return head and head.budgets and head or nil
end

function BASE.budgets(run) return budgets_of_graph(run) and budget_gate.OF_GRAPH or nil end

function BASE.budget_ids(run)
  local head = budgets_of_graph(run)
  return head and is_set(head.blocking) and head.blocking or nil
end

function BASE.joins(run)
  local g = graph_store.of_run(run)
  return graph_store.joins_of(g)
end

local function overlay_values(run, fields)
  return row.has_overlay(run) and redis.call('HMGET', row.overlay_key(run), unpack(fields)) or nil
end

-- Returns the named fields of a run, as record.read does.
function store_run.read(run, fields)
  local out, others = {}, nil
  for i = 1, #fields do
    local field = fields[i]
    local read = READ[field]
    if read then
      out[field] = read(run)
    else
      others = others or {}
      others[#others + 1] = field
    end
  end
  if not others then return out end
  local found = overlay_values(run, others)
  for i = 1, #others do
    local field = others[i]
    local value, base = found and found[i], BASE[field]
    if value then out[field] = value elseif base then out[field] = base(run) end
  end
  return out
end

function store_run.values(run, ...)
  local fields, values = { ... }, {}
  local by_name = store_run.read(run, fields)
  for i = 1, #fields do values[i] = by_name[fields[i]] or false end
  return values
end

function store_run.value(run, field) return store_run.read(run, { field })[field] or false end

-- Writes fields of a run: names and values in turn.
function store_run.set(run, ...)
  local given, others = { ... }, {}
  for i = 1, #given, 2 do
    local field, write = given[i], WRITE[given[i]]
    if write then
      write(run, given[i + 1])
      row.touch_run(run)
    elseif not READ[field] then
      others[#others + 1] = field
      others[#others + 1] = given[i + 1]
    end
  end
  if #others == 0 then return end
  redis.call('HSET', row.overlay_key(run), unpack(others))
  if row.has_overlay(run) then return end
  run.flags = run.flags + run_head.OVERLAY
  row.touch_run(run)
end

-- Unsets fields of a run.
function store_run.clear(run, ...)
  local given, others = { ... }, {}
  for i = 1, #given do
    local field, write = given[i], WRITE[given[i]]
    if write then
      write(run, nil)
      row.touch_run(run)
    elseif not READ[field] then
      others[#others + 1] = field
    end
  end
  if #others > 0 and row.has_overlay(run) then redis.call('HDEL', row.overlay_key(run), unpack(others)) end
end

function store_run.add(run, field, by)
  local sum = (tonumber(store_run.value(run, field) or nil) or 0) + by
  store_run.set(run, field, number.text(sum))
  return sum
end

-- No caller needs all fields of a run.
function store_run.all() return {} end

function store_run.exists() return 1 end

function store_run.node_count(run) return run.count end

store_run.add_nodes, store_run.plain_flow, store_run.flow = run_rows.add_nodes, run_rows.plain_flow, run_rows.flow

store_run.note_success, store_run.write_out = row_log.note_success, row_log.write_out

store_run.count_noted, store_run.read_noted, store_run.read_noted_of = row_log.count, row_log.read, row_log.read_node

store_run.note_unusual, store_run.note_judged, store_run.note_extended = run_rows.note_unusual, run_rows.note_judged, run_rows.note_extended

store_run.add_open, store_run.result_execution = run_rows.add_open, run_rows.result_execution
