-- The call of a worker: it commits results, and leases the worker its next executions.

-- Maximum number of completions in one call.
local MAX_COMPLETIONS = 64

-- Positions of the first arguments, and their number for each completion: see ffx_work.
local ORIGIN_AT, COMPLETIONS_AT, PER_COMPLETION = 12, 13, 4

-- Commits a result by the general functions. Returns the outcome.
local function commit_other(x, execution_id, held_as, result)
  local c = turn.mix(x, turn.enter(x, execution_id))
  local lease_id, epoch, attempt_id = string.match(held_as, '^(%S*) (%S*) (%S*)$')
  if not lease_id then lease_id, epoch, attempt_id = held_as, '1', row_record.attempt_of(held_as) end
  local repeated, refusal = completion.commit(c, {
    execution_id = execution_id, lease_id = lease_id, lease_epoch = epoch, attempt_id = attempt_id, result = result,
  })
  x.budget = c.budget
  return refusal and refusal[2] or repeated and 'ALREADY_SATISFIED' or 'OK'
end

-- Commits the results of a call. Returns the outcomes.
local function commit_all(x, args, count)
  local outcomes, at = { nil, nil, nil, nil }, COMPLETIONS_AT + 1
  for i = 1, count do
    local execution_id, held_as, result = args[at], args[at + 1], args[at + 3]
    x.completion = i
    outcomes[i] = usual_end.commit(x, execution_id, held_as, args[at + 2], result) or commit_other(x, execution_id, held_as, result)
    at = at + PER_COMPLETION
  end
  return outcomes
end

-- Resolves the edges of completions that the general functions have committed, and counts the ends.
local function follow(x)
  local room = x.budget
  for i = 1, x.count do
    local c = x.partitions[i].c
    c.budget = room
    graph.count_ends(c)
    propagate.run(c)
    room = c.budget
  end
end

-- Reports whether a partition that the call has worked in has more work than one call does.
local function has_more(x)
  for i = 1, x.count do
    if x.partitions[i].c.more then return '1' end
  end
  return x.c.more and '1' or '0'
end

-- The origin of the last call, and the waiters of a run that only this process waits for.
local last_origin, last_alone

-- @function ffx_work
-- @summary  Commits the results of several executions of one worker, as ffx_complete does for each, and leases it up to `count`
--           executions that come next. On a server that has all partitions, the executions may be of any of them. `lease` is the
--           id of the lease, and for other attempts than the first one under its first lease, whose id follows from the lease, the
--           lease epoch and the attempt's id, after a blank each. `run` is the id of the node's run in bytes, without the last
--           four digits; empty for an execution outside of runs. The outcomes are in the order of the completions, with blanks
--           between them: OK, ALREADY_SATISFIED, or the code with which ffx_complete would have refused; a refused completion
--           does not affect the others. The outcome ended is OK, too: the completion has ended its run and is the result of the
--           run, for which nothing but the process of `origin` waits, so that no message is sent. On such a server, the call also
--           counts sums of usage first, see ffx_count_usage. After a lost reply, send it again with `repeated`.
-- @flags    derives positional
-- @key      partition          ffx.partition
-- @include  claim_request
-- @arg      origin             text optional
-- @group    completions        execution_id:any_execution_id lease:text run:bytes<plain> result:value<result>
-- @group    sums               usage_sum
-- @reply    OK more:bool remaining:int outcomes:text executions:list(claimed_execution) candidates:list(candidate) counted:text
-- @error    invalid_input message:text
-- @error    invalid_capabilities reason:text
function F.ffx_work(keys, args)
  local request, err = claim_request.of(unpack(args, 1, ORIGIN_AT - 1))
  if err then return err end
  local count = number.SMALL_OF[args[COMPLETIONS_AT]]
  if not count or count > MAX_COMPLETIONS then
    return reply.err('invalid_input', 'completions must be at most ' .. MAX_COMPLETIONS .. ', got: ' .. tostring(args[COMPLETIONS_AT]))
  end
  local sums_at = COMPLETIONS_AT + count * PER_COMPLETION + 1
  if args[sums_at] ~= '0' and not budget_sums.fit(args, sums_at) then
    return reply.err('invalid_input', 'the counts of completions and sums do not fit the arguments')
  end
  request.skip_abandoned = true
  local c = call.open(keys[1])
  local counted = args[sums_at] ~= '0' and budget_sums.count(c, args, sums_at) or ''
  local x, origin = turn.new(c, request), args[ORIGIN_AT]
  if origin ~= '' then
    if origin ~= last_origin then last_origin, last_alone = origin, run_watch.alone(origin) end
    x.alone = last_alone
  end
  x.ending = count
  local outcomes = commit_all(x, args, count)
  local executions = x.leased
  if x.is_mixed or request.repeated or request.aside then
    follow(x)
    turn.write(x)
    executions = claiming.claim(c, request, x)
  elseif request.count > 0 then
    claiming.fill(c, request, x)
  else
    turn.write(x)
  end
  local remaining = claiming.remaining(c, request)
  settle.run(c)
  return reply.ok(has_more(x), remaining, table.concat(outcomes, ' '), executions, request.candidates or '', counted)
end
