-- For the words of searches: a sample of the tags that runs have, and the secret with which programs hash the words of errors. The
-- secret is in the partition that programs name, by convention the first one.

-- Maximum numbers of flows of a partition whose tags are sampled, and of their newest runs.
local SAMPLED = { flows = 64, runs = 2 }

-- @record sampled_tag flow_name:text name:text value:text

-- @function ffx_sample_tags
-- @summary  Returns the tags of the newest runs of each flow of a namespace in one partition, of at most 64 flows. A flow whose
--           newest runs have no tags is returned once, with an empty name.
-- @flags    derives readonly
-- @key      partition          ffx.partition
-- @arg      namespace          text
-- @reply    OK tags:list(sampled_tag)
function F.ffx_sample_tags(K, A)
  local c, found = call.open(K.partition), {}
  local flows = run_counts.flows(c, A.namespace)
  for i = 1, math.min(#flows, SAMPLED.flows) do
    local known = #found
    local page = run_entries.page(key.ffx_runs(c, flows[i]), 0, SAMPLED.runs, false)
    for _, entry in ipairs(page) do
      local _, flow_id = run_entries.read(entry)
      local tags = flow_id and redis.call('HGETALL', key.flow_tags(c, flow_id)) or {}
      for j = 1, #tags, 2 do found[#found + 1] = { flows[i], tags[j], tags[j + 1] } end
    end
    if #found == known then found[#found + 1] = { flows[i], '', '' } end
  end
  return reply.ok(found)
end

-- Maximum size of the secret (bytes).
local MAX_BYTES = 64

-- @function ffx_search_secret
-- @summary  Returns the secret of the deployment for the words of errors, which is the proposed one if there is none yet.
-- @flags    derives repeatable
-- @key      partition          ffx.partition
-- @arg      proposed           bytes<plain>
-- @reply    OK secret:bytes<plain>
-- @error    invalid_input message:text
function F.ffx_search_secret(K, A)
  if #A.proposed == 0 or #A.proposed > MAX_BYTES then
    return reply.err('invalid_input', 'proposed must have 1 to ' .. MAX_BYTES .. ' bytes, got: ' .. #A.proposed)
  end
  local c = call.open(K.partition)
  local secret_key = key.ffx_search_secret(c)
  local secret = redis.call('GET', secret_key)
  if not secret then
    secret = A.proposed
    redis.call('SET', secret_key, secret)
  end
  return reply.ok(secret)
end
