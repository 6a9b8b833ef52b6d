-- Whether anybody listens to what happens to executions outside of managed flows: programs of this project, whose workers and
-- keepers make composite calls. Where only functions of the contract are called, nothing is published, and no key of the
-- composite calls comes into being.
--
-- This is kept in the memory of the server. One that starts, becomes a primary or loads the library hears of it with the next
-- call of a worker or a keeper.

local present = false

-- A program of this project has called.
function audience.note() present = true end

function audience.is_present() return present end
