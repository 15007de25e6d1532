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

--- The entries of a dimension one by one, without it.
---@param x neap.Tensor
---@param options? integer|{dim: integer}
---@return neap.Tensor ...
function M.unbind(x, options)
  of_tensor("neap.unbind", x)
  local dim, total = dimension("neap.unbind", x, options)
  local parts = {}
  for i = 1, total do parts[i] = core.select(x, dim, i) end
  return table.unpack(parts)
end

--- Positions in a list as those of a permutation: the listed ones last (or first), in their order.
local function order_of(ndim, list, last)
  local listed, order = {}, {}
  for _, d in ipairs(list) do listed[d] = true end
  if not last then table.move(list, 1, #list, 1, order) end
  for d = 1, ndim do
    if not listed[d] then order[#order + 1] = d end
  end
  if last then table.move(list, 1, #list, #order + 1, order) end
  return order
end

local function positions(which, x, list)
  local out = {}
  for i, d in ipairs(list) do
    d = check.value("neap.tensordot", ("dim %d of input %d"):format(i, which), d, {kind = "integer"})
    if d == 0 or d > x.ndim or d < -x.ndim then
      check.fail("RANGE", "neap.tensordot: dim %d of input %d, expected 1 to %d or -1 to -%d", d, which, x.ndim, x.ndim)
    end
    out[i] = d < 0 and d + x.ndim + 1 or d
  end
  return out
end

--- The dimensions to sum over, of both.
local function contracted(a, b, dims)
  if type(dims) == "table" then
    if #dims ~= 2 or type(dims[1]) ~= "table" or type(dims[2]) ~= "table" or #dims[1] ~= #dims[2] then
      check.fail("INVALID", "neap.tensordot: dims are a number, or two lists of as many dimensions")
    end
    return positions(1, a, dims[1]), positions(2, b, dims[2])
  end
  local n = check.value("neap.tensordot", "dims", dims == nil and 2 or dims, {kind = "integer", min = 0})
  if n > a.ndim or n > b.ndim then
    check.fail("SHAPE", "neap.tensordot: dims is %d, but the inputs have %d and %d dimensions", n, a.ndim, b.ndim)
  end
  local last, first = {}, {}
  for i = 1, n do last[i], first[i] = a.ndim - n + i, i end
  return last, first
end

--- Products of two tensors summed over dimensions of both: the last `dims` of the first with the first of the second,
--- or those that two lists name; the other dimensions stay, the first input's in front.
---@param a neap.Tensor
---@param b neap.Tensor
---@param options? integer|{dims: integer|integer[][]} (default 2)
---@return neap.Tensor
function M.tensordot(a, b, options)
  for i, x in ipairs {a, b} do
    if not check.is_tensor(x) then
      check.fail("INVALID", "neap.tensordot: input %d is %s, expected a tensor", i, check.describe(x))
    end
  end
  local o = type(options) == "table" and check.options("neap.tensordot", options, {dims = {kind = "any"}})
  local over_a, over_b = contracted(a, b, o and o.dims or not o and options or nil)
  local shape, inner = {}, 1
  for i, d in ipairs(over_a) do
    if a.shape[d] ~= b.shape[over_b[i]] then
      check.fail("SHAPE", "neap.tensordot: %s and %s do not have the same size in dimensions %d and %d",
                 check.shape_text(a.shape), check.shape_text(b.shape), d, over_b[i])
    end
    inner = inner * a.shape[d]
  end
  local left, right = order_of(a.ndim, over_a, true), order_of(b.ndim, over_b, false)
  local rows, columns = 1, 1
  for i = 1, a.ndim - #over_a do shape[i], rows = a.shape[left[i]], rows * a.shape[left[i]] end
  for i = #over_b + 1, b.ndim do shape[#shape + 1], columns = b.shape[right[i]], columns * b.shape[right[i]] end
  a = core.reshape(a.ndim > 0 and core.permute(a, {dims = left}) or a, {rows, inner})
  b = core.reshape(b.ndim > 0 and core.permute(b, {dims = right}) or b, {inner, columns})
  return core.reshape(core.matmul(a, b), {shape = shape})
end

local function of_values(name, instead)
  M[name] = function()
    check.fail("UNSUPPORTED", "neap.%s: the size of its result would depend on values, but memory is known before a "
               .. "program runs; use %s", name, instead)
  end
end

of_values("masked_select", "where or masked_fill, which keep the shape, or a sum of products with the mask")
of_values("nonzero", "topk or sort of the mask for as many positions as you want, or the mask itself")

return M
