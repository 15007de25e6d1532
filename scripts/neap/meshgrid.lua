--- neap.meshgrid.
local core = require "neap.core"
local check = require "neap.check"

--- Grids of coordinates: for vectors of m and n entries two tensors [m, n], and so on; with `indexing` "xy" the first
--- two dimensions change places. As in `local y, x = neap.meshgrid(rows, columns)`.
---@param ... neap.Tensor|{indexing: "ij"|"xy"} vectors, then options (indexing is "ij" when left out)
---@return neap.Tensor ...
local function meshgrid(...)
  local vectors, shape, n = {...}, {}, select("#", ...)
  local o = {}
  if type(vectors[n]) == "table" then
    o, n = vectors[n], n - 1
    vectors[n + 1] = nil
  end
  local indexing = check.options("neap.meshgrid", o, {indexing = {kind = "string", default = "ij"}}).indexing
  if indexing ~= "ij" and indexing ~= "xy" then
    check.fail("INVALID", "neap.meshgrid: indexing is %q, expected \"ij\" or \"xy\"", indexing)
  end
  if n == 0 then check.fail("INVALID", "neap.meshgrid: takes at least 1 vector, got none") end
  local function place(i) return indexing == "xy" and n > 1 and i <= 2 and 3 - i or i end
  for i = 1, n do
    if not check.is_tensor(vectors[i]) or vectors[i].ndim ~= 1 then
      check.fail("SHAPE", "neap.meshgrid: input %d is %s, expected a vector", i, check.describe(vectors[i]))
    end
    shape[place(i)] = vectors[i].shape[1]
  end
  local grids = {}
  for i = 1, n do
    local line = {}
    for d = 1, n do line[d] = d == place(i) and shape[d] or 1 end
    grids[i] = core.expand(core.reshape(vectors[i], line), shape)
  end
  return table.unpack(grids)
end

return meshgrid
