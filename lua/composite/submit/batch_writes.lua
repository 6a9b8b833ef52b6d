-- The writes of a submission, gathered and sent with few commands.

-- Creates the data that the runs of one call share: members that enter indexes (see batch_writes.gather), and texts; the tags of
-- the previous run with the sets of runs for them (see run_record.enter_tags).
function batch_writes.new()
  return {
    texts = call.short_list(), text_count = 0, tags = nil, sets = nil, nil, nil, nil, nil,
  }
end

-- Returns the list in which members of a set or sorted set are gathered, which one command for each key writes at the end of the
-- call.
local function list_of(batch, command, target)
  local list = batch[target]
  if not list then
    list = { command = command, target = target, nil, nil, nil, nil }
    batch[target] = list
    batch[#batch + 1] = list
  end
  return list
end

-- Gathers a member: `second` follows a score.
function batch_writes.gather(batch, command, target, first, second)
  local list = list_of(batch, command, target)
  list[#list + 1] = first
  if second then list[#list + 1] = second end
end

-- Gathers a text that is written at the end of the call, together with the others.
function batch_writes.text(batch, text_key, text)
  local texts, count = batch.texts, batch.text_count
  texts[count + 1] = text_key
  texts[count + 2] = text
  batch.text_count = count + 2
end

-- Approximate maximum size (bytes) of the texts of one command: the server copies the arguments of a command before it keeps
-- them.
local TEXT_BYTES = 65536
batch_writes.TEXT_BYTES = TEXT_BYTES
local TEXTS_AT_A_TIME = 500

-- Writes texts: keys and texts in turn, `count` of both together.
function batch_writes.write_texts(texts, count)
  local from, bytes = 1, 0
  for i = 2, count, 2 do
    bytes = bytes + #texts[i]
    if i == count or bytes >= TEXT_BYTES or i - from >= TEXTS_AT_A_TIME then
      redis.call('MSET', unpack(texts, from, i))
      from, bytes = i + 1, 0
    end
  end
end

-- Writes the gathered members and texts, at the end of a call.
function batch_writes.finish(batch)
  batch_writes.write_texts(batch.texts, batch.text_count)
  for _, list in ipairs(batch) do call.chunked(list.command, list.target, list) end
end
