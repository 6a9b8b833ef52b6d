-- The decisions of conditions with rows.

-- Returns the number of the case that the result of a condition decides for; nil without one.
function row_decision.case_of(r) return decision.number_in(run_data.result(r)) end

-- Returns the condition for which a node was skipped; nil for others.
function row_decision.reason(r)
  return node_row.OUTCOME[r.outcome] == 'skipped' and row_record.read(r, { 'failure_reason' }).failure_reason or nil
end

local OF_ROW = { number_of = row_decision.case_of, reason_of = row_decision.reason }

-- Returns the outcome that an edge of a kind counts for its ended upstream, which has a row.
function row_decision.verdict(up, kind) return decision.verdict_by(kind, node_row.OUTCOME[up.outcome], OF_ROW, up) end
