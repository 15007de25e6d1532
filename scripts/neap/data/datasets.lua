--- Datasets: something with a size and fetch(self, indices) -> table of tensors, one row a sample.
local core = require "neap.core"
local check = require "neap.check"

---@class neap.data
local M = {}

--- Anything with these two fields is a dataset: a table of your own will do. `fetch` gives the samples at positions,
--- which count from 1, in their order, as tensors by field, one row a sample.
---@class neap.Dataset
---@field size integer samples
---@field fetch fun(self: neap.Dataset, indices: integer[]): table<string, neap.Tensor> some samples

-- A batch has these of its own.
local reserved = {size = true, indices = true, epoch = true, position = true}

local function check_fields(what, fields)
  check.value(what, "the fields", fields, {kind = "table"})
  local n = 0
  for name in pairs(fields) do
    n = n + 1
    if type(name) ~= "string" or reserved[name] then
      check.fail("INVALID", "%s: a field is named %s; names are strings other than %s", what, check.describe(name),
                 table.concat(check.sorted_keys(reserved), ", "))
    end
  end
  if n == 0 then check.fail("INVALID", "%s: no fields were given, expected {x = ..., y = ...}", what) end
end

--- The number of samples that all fields agree on.
local function common_size(what, sizes)
  local first
  for _, name in ipairs(check.sorted_keys(sizes)) do
    first = first or name
    if sizes[name] ~= sizes[first] then
      check.fail("SHAPE", "%s: %q has %d samples but %q has %d", what, first, sizes[first], name, sizes[name])
    end
  end
  return sizes[first]
end

--- The first of the indices when they follow one another, else nil.
local function run_start(indices)
  for i = 2, #indices do
    if indices[i] ~= indices[i - 1] + 1 then return nil end
  end
  return indices[1]
end

-- HDF5 -------------------------------------------------------------------------------------------------

local Hdf5 = {}
Hdf5.__index = Hdf5

--- Samples in an HDF5 file, read when they are asked for: what is in memory is a batch, not the file. Samples lie
--- along the first dimension of each dataset; all have as many. Rows keep the dtype they are stored in. A file or item
--- that is not there is an error.
---@param path string
---@param fields table<string, string> field of a batch to the path of a dataset in the file
---@return neap.Dataset
function M.hdf5(path, fields)
  check.value("data.hdf5", "the path", path, {kind = "string"})
  check_fields("data.hdf5", fields)
  local file, err = core.hdf5.open(path)
  if not file then error(err, 0) end
  local sets, sizes = {}, {}
  for name, item in pairs(fields) do
    check.value("data.hdf5", name, item, {kind = "string"})
    local set, problem = file:dataset(item)
    if not set then error(problem, 0) end
    if #set.shape == 0 then
      check.fail("SHAPE", "data.hdf5: %q in %s is one value, expected samples along a first dimension", item, path)
    end
    sets[name], sizes[name] = set, set.shape[1]
  end
  return setmetatable({sets = sets, size = common_size("data.hdf5", sizes), file = file}, Hdf5)
end

function Hdf5:fetch(indices)
  local batch, start = {}, run_start(indices)
  for name, set in pairs(self.sets) do
    batch[name] = start and set:rows(start, #indices) or set:gather(indices)
  end
  return batch
end

-- Tensors ----------------------------------------------------------------------------------------------

local Tensors = {}
Tensors.__index = Tensors

--- Samples in tensors, along their first dimension. Batches in order are views of them, others are copies.
---@param fields table<string, neap.Tensor> field of a batch to a tensor; all have the same first dimension
---@return neap.Dataset
function M.tensors(fields)
  check_fields("data.tensors", fields)
  local sizes, copy = {}, {}
  for name, t in pairs(fields) do
    check.value("data.tensors", name, t, {kind = "tensor"})
    if t.ndim == 0 then
      check.fail("SHAPE", "data.tensors: %q is one value, expected samples along a first dimension", name)
    end
    sizes[name], copy[name] = t.shape[1], t
  end
  return setmetatable({fields = copy, size = common_size("data.tensors", sizes)}, Tensors)
end

local function gather(t, indices)
  local rows = {}
  for i, k in ipairs(indices) do rows[i] = t:narrow(1, k, 1) end
  return core.cat(rows, {dim = 1})
end

function Tensors:fetch(indices)
  local batch, start = {}, run_start(indices)
  for name, t in pairs(self.fields) do
    batch[name] = start and t:narrow(1, start, #indices) or gather(t, indices)
  end
  return batch
end

-- Written in Lua ---------------------------------------------------------------------------------------

local Custom = {}
Custom.__index = Custom

---@class neap.data.DatasetOptions
---@field size integer samples
---@field get fun(i: integer): table<string, neap.Tensor|number> sample i, from 1 to size

--- Samples that a function makes one by one, with tensors of one shape a field, which are stacked, or numbers, which
--- become a vector: `int64` when all are integers, else `fp32`.
---@param options neap.data.DatasetOptions
---@return neap.Dataset
function M.dataset(options)
  local o = check.options("data.dataset", options, {
    size = {kind = "integer", min = 0, required = true}, get = {kind = "callable", required = true},
  })
  return setmetatable({size = o.size, get = o.get}, Custom)
end

local function check_sample(sample, i)
  if type(sample) ~= "table" then
    check.fail("INVALID", "data.dataset: get(%d) gave %s, expected a table of fields", i, check.describe(sample))
  end
  check_fields(("data.dataset: get(%d)"):format(i), sample)
  for name, v in pairs(sample) do
    if type(v) ~= "number" and not check.is_tensor(v) then
      check.fail("INVALID", "data.dataset: get(%d).%s is %s, expected a tensor or a number", i, name, check.describe(v))
    end
  end
end

--- Numbers become a vector: labels int64, others fp32. Tensors are stacked.
local function collate(name, values, indices)
  if type(values[1]) == "number" then
    local whole = true
    for _, v in ipairs(values) do whole = whole and math.type(v) == "integer" end
    return core.tensor(values, {dtype = whole and "int64" or "fp32"})
  end
  local first = check.shape_text(values[1].shape)
  for i, v in ipairs(values) do
    if check.shape_text(v.shape) ~= first then
      check.fail("SHAPE", "data.dataset: get(%d).%s has shape %s but get(%d).%s has %s", indices[1], name, first,
                 indices[i], name, check.shape_text(v.shape))
    end
  end
  return core.stack(values, {dim = 1})
end

function Custom:fetch(indices)
  local columns = {}
  for n, i in ipairs(indices) do
    local sample = self.get(i)
    check_sample(sample, i)
    for name, v in pairs(sample) do
      columns[name] = columns[name] or {}
      if #columns[name] ~= n - 1 or n > 1 and type(v) ~= type(columns[name][1]) then
        check.fail("INVALID", "data.dataset: get(%d).%s is not as in the samples before it", i, name)
      end
      columns[name][n] = v
    end
  end
  local batch = {}
  for name, values in pairs(columns) do
    if #values ~= #indices then
      check.fail("INVALID", "data.dataset: get(%d).%s is missing", indices[#values + 1], name)
    end
    batch[name] = collate(name, values, indices)
  end
  return batch
end

return M
