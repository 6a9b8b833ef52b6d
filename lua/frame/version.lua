-- The version of the library.

-- @function ff_version
-- @summary  Version of the contract that the ff_* functions follow.
-- @reply    raw version:text
function F.ff_version()
  return '15'
end
