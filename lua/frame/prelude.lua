-- What every file of the library sees beside the module tables: the table of functions, and is_set.
--
-- While the library loads, only redis.register_function exists, so code at file scope may touch no other global.

local F = {}

-- A value is set when it is there and not empty. "0" is set.
local function is_set(value)
  return value ~= nil and value ~= false and value ~= ''
end
