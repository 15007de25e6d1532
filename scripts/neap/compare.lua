--- Comparisons of whole tensors, for scripts and tests: a boolean of Lua.
local core = require "neap.core"
local check = require "neap.check"

local M = {}

local function operands(what, a, b, instead)
  for i = 1, 2 do
    local v = select(i, a, b)
    if not check.is_tensor(v) then
      check.fail("INVALID", "%s: input %d is %s, expected a tensor", what, i, check.describe(v))
    end
  end
  if core.tracing() then
    check.fail("INVALID", "%s inside a traced function: no value is known there; %s gives a tensor", what, instead)
  end
end

--- Whether two tensors have one shape and equal elements, whatever their dtypes; NaN equals nothing.
---@param a neap.Tensor
---@param b neap.Tensor
---@return boolean
function M.equal(a, b)
  operands("neap.equal", a, b, "neap.eq")
  if check.shape_text(a.shape) ~= check.shape_text(b.shape) then return false end
  return core.all(core.eq(a, b)):item()
end

--- Whether all elements of two tensors, which are broadcast, are close: |a - b| at most `atol` + `rtol` |b|.
---@param a neap.Tensor
---@param b neap.Tensor
---@param options? {rtol: number, atol: number, equal_nan: boolean}
---@return boolean
function M.allclose(a, b, options)
  operands("neap.allclose", a, b, "neap.isclose")
  return core.all(core.isclose(a, b, options or {})):item()
end

return M
