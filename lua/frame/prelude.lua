-- Names that every file of the library can use in addition to the module tables: the table of functions, is_set, and the
-- functions of the server. While the library loads, only redis.register_function exists, so code at file scope may use no other
-- global.

local F = {}

-- Functions of the server. Each is searched among the globals when it is first called: the server finds them only after the table
-- of the library's own globals, and that search takes several times as long as one in this table.
local server = {
  redis = function() return redis end,
  string = function() return string end,
  struct = function() return struct end,
  tonumber = function() return tonumber end,
  ipairs = function() return ipairs end,
  unpack = function() return unpack end,
}

-- Returns a table with functions of one of the server's tables. Names that are not given are absent.
local function looked_up_late(of, a, b, c, d, e, f, g, h, i, j)
  local functions = {}
  local function add(name)
    if not name then return end
    functions[name] = function(...)
      functions[name] = server[of]()[name]
      return functions[name](...)
    end
  end
  add(a) add(b) add(c) add(d) add(e) add(f) add(g) add(h) add(i) add(j)
  return functions
end

local register_function = redis.register_function
local redis = looked_up_late('redis', 'call', 'pcall', 'sha1hex')
redis.register_function = register_function
local string = looked_up_late('string', 'byte', 'char', 'find', 'format', 'gmatch', 'gsub', 'lower', 'match', 'rep', 'sub')
local struct = looked_up_late('struct', 'pack', 'unpack')

local tonumber, ipairs, unpack
tonumber = function(...)
  tonumber = server.tonumber()
  return tonumber(...)
end
ipairs = function(...)
  ipairs = server.ipairs()
  return ipairs(...)
end
unpack = function(...)
  unpack = server.unpack()
  return unpack(...)
end

-- Reports whether a value is present and not empty. "0" is set.
local function is_set(value)
  return value ~= nil and value ~= false and value ~= ''
end
