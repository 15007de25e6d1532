--- Cutting tensors into several: results come one by one, as in `local q, k, v = neap.chunk(qkv, 3, {dim = -1})`.
local core = require "neap.core"
local check = require "neap.check"

local M = {}

local function of_tensor(what, x)
  if not check.is_tensor(x) then
    check.fail("INVALID", "%s: input 1 is %s, expected a tensor", what, check.describe(x))
  end
  if x.ndim == 0 then check.fail("SHAPE", "%s: a scalar has no dimension to cut", what) end
end

--- The dimension by position or as {dim=}, 1 when left out, counted from the front; and its size.
local function dimension(what, x, given)
  if type(given) ~= "table" then given = {dim = given} end
  local dim = check.options(what, given, {dim = {kind = "integer", default = 1}}).dim
  if dim == 0 or dim > x.ndim or dim < -x.ndim then
    check.fail("RANGE", "%s: option `dim` is %d, expected 1 to %d or -1 to -%d", what, dim, x.ndim, x.ndim)
  end
  if dim < 0 then dim = dim + x.ndim + 1 end
  return dim, x.shape[dim]
end

local function cut(x, dim, sizes)
  local parts, start = {}, 1
  for i, size in ipairs(sizes) do
    parts[i] = core.narrow(x, dim, start, size)
    start = start + size
  end
  return table.unpack(parts)
end

--- Sizes that are all `size` but for the last; of nothing, one empty part.
local function equal_sizes(total, size)
  local sizes = {}
  for start = 0, math.max(total, 1) - 1, size do sizes[#sizes + 1] = math.min(size, total - start) end
  return sizes
end

local function given_sizes(total, dim, list)
  local sizes, sum = {}, 0
  for i, size in ipairs(list) do
    sizes[i] = check.value("neap.split", ("size %d"):format(i), size, {kind = "integer", min = 0})
    sum = sum + sizes[i]
  end
  if sum ~= total then
    check.fail("SHAPE", "neap.split: the sizes add up to %d, but dimension %d has %d entries", sum, dim, total)
  end
  return sizes
end

--- Parts of `size` entries (the last may be smaller), or of the sizes in a list, which add up to the whole.
---@param x neap.Tensor
---@param size integer|integer[]
---@param options? integer|{dim: integer} the dimension (default 1)
---@return neap.Tensor ...
function M.split(x, size, options)
  of_tensor("neap.split", x)
  local dim, total = dimension("neap.split", x, options)
  if type(size) == "table" then return cut(x, dim, given_sizes(total, dim, size)) end
  size = check.value("neap.split", "the size", size, {kind = "integer", min = 1})
  return cut(x, dim, equal_sizes(total, size))
end

--- At most `chunks` parts of equal size (the last may be smaller).
---@param x neap.Tensor
---@param chunks integer
---@param options? integer|{dim: integer} the dimension (default 1)
---@return neap.Tensor ...
function M.chunk(x, chunks, options)
  of_tensor("neap.chunk", x)
  local dim, total = dimension("neap.chunk", x, options)
  chunks = check.value("neap.chunk", "the number of chunks", chunks, {kind = "integer", min = 1})
  return cut(x, dim, equal_sizes(total, math.max((total + chunks - 1) // chunks, 1)))
end

return M
