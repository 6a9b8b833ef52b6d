-- Lists the executions that a worker holds.

-- Maximum number of leases that one call searches for nodes with rows, which themselves contain their worker. It reads those that
-- end last, because a claim whose reply was lost was made just now.
local MAX_LOOKED_AT = 4096

-- Returns the executions that an instance of a worker has leased in the partition.
function worker_leases.of(c, worker_instance_id)
  local ids = redis.call('SMEMBERS', key.index_worker_leases(c, worker_instance_id))
  for _, execution_id in ipairs(redis.call('ZRANGE', key.index_lease_expiry(c), -MAX_LOOKED_AT, -1)) do
    local r = row.ordinal(execution_id) > 0 and row.of_key(key.exec_core(c, execution_id))
    if r and r.worker > 0 and worker_registry.instance(r.run, r.worker) == worker_instance_id then ids[#ids + 1] = execution_id end
  end
  return ids
end
