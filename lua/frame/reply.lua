-- The shapes of replies.

function reply.ok(...) return { 1, 'OK', ... } end
function reply.already(...) return { 1, 'ALREADY_SATISFIED', ... } end
function reply.duplicate(id) return { 1, 'DUPLICATE', id } end
function reply.err(code, ...) return { 0, code, ... } end

-- The four details let a caller recognise its own lost reply.
function reply.not_active(core)
  return reply.err('execution_not_active', core.terminal_outcome or '', core.current_lease_epoch or '',
    core.lifecycle_phase or '', core.current_attempt_id or '')
end
