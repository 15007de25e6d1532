--- Sizes of windows as layers take them.
local check = require "neap.check"

local NAMES <const> = {[2] = " or {height, width}", [3] = " or {depth, height, width}"}

--- One whole number of at least `least` for all of `n` dimensions, or a list of n; for one dimension the number alone.
---@param what string who asks, for errors
---@param name string
---@param v any
---@param n integer
---@param least integer
---@return integer|integer[] # a new list
return function(what, name, v, n, least)
  local spec = {kind = "integer", min = least}
  if n == 1 then return check.value(what, name, v, spec) end
  local list = {}
  if type(v) == "table" and #v ~= n then
    check.fail("INVALID", "%s: %s has %d entries, expected one number%s", what, name, #v, NAMES[n])
  end
  for i = 1, n do list[i] = check.value(what, name, type(v) == "table" and v[i] or v, spec) end
  return list
end
