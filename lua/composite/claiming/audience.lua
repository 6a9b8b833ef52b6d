-- Records whether any program listens for changes of executions outside of managed flows: programs of this project, whose workers
-- and keepers make composite calls. Where only functions of the contract are called, nothing is published, and no key of the
-- composite calls is created.
--
-- The record is in the memory of the server. A server that starts, becomes a primary or loads the library learns it from the next
-- call of a worker or a keeper.

local present = false

-- Records that a program of this project has called.
function audience.note() present = true end

function audience.is_present() return present end
