--- What records do not say in words, found by trying an op on its samples: gradients, and what a batch may be cut into.
local neap = require "neap"

local M = {}

local BATCH <const>, MICRO <const> = 8, 4

-- Samples ----------------------------------------------------------------------------------------------

---@class reference.Sample
---@field inputs {dtype: string, shape: integer[], below: integer?, positive: boolean}[]
---@field options table

local dtypes <const> = {f32 = "fp32", f64 = "fp64", i64 = "int64", i32 = "int32", u8 = "uint8", bool = "bool"}

local function parse_input(word)
  local dtype, sizes, marks = word:match "^(%w+)%[([%d,]*)%](.*)$"
  local shape = {}
  for n in sizes:gmatch "%d+" do shape[#shape + 1] = math.tointeger(n) end
  return {dtype = dtypes[dtype], shape = shape, below = tonumber(marks:match "below=(%d+)"),
          positive = marks:find "positive" ~= nil}
end

local function parse_value(text)
  if text == "true" or text == "false" then return text == "true" end
  if text == "inf" then return math.huge end
  if text:find "," then
    local list = {}
    for n in text:gmatch "[^,]+" do list[#list + 1] = math.tointeger(n) end
    return list
  end
  return tonumber(text) or text
end

--- "f32[2,3] i64[3]:below=4; dim=-1", the grammar of engine/ir/record.h.
---@param text string
---@return reference.Sample
function M.parse(text)
  local sample = {inputs = {}, options = {}}
  for word in text:match("^[^;]*"):gmatch "%S+" do sample.inputs[#sample.inputs + 1] = parse_input(word) end
  for name, value in text:gmatch ";%s*([%w_]+)=([^;]*)" do
    sample.options[name] = parse_value(value:match "^(.-)%s*$")
  end
  return sample
end

local function tensor_of(input)
  if input.dtype == "bool" then return neap.ones(input.shape, {dtype = "bool"}) end
  if input.dtype ~= "fp32" and input.dtype ~= "fp64" then return neap.zeros(input.shape, {dtype = input.dtype}) end
  local x = neap.rand(input.shape):to(input.dtype)
  return input.positive and x * 0.5 + 0.25 or x * 2 - 1
end

local function tensors_of(sample)
  local list = {}
  for i, input in ipairs(sample.inputs) do list[i] = tensor_of(input) end
  return list
end

--- A function of tensors that applies the op with the sample's options; with several results, the first.
local function apply(name, sample)
  return function(...)
    local arguments = table.pack(...)
    arguments[arguments.n + 1] = sample.options
    return (neap[name](table.unpack(arguments, 1, arguments.n + 1)))
  end
end

-- Gradients --------------------------------------------------------------------------------------------

--- fn of floating-point inputs only: the others are constants.
local function of_floats(sample, tensors, fn)
  local floats, places = {}, {}
  for i, input in ipairs(sample.inputs) do
    if input.dtype == "fp32" or input.dtype == "fp64" then
      floats[#floats + 1], places[#places + 1] = tensors[i], i
    end
  end
  return floats, function(...)
    local all = {table.unpack(tensors)}
    for i, place in ipairs(places) do all[place] = (select(i, ...)) end
    return fn(table.unpack(all, 1, #tensors))
  end
end

local function squares(list)
  local total = 0
  for _, g in ipairs(list) do total = g:to("fp32"):square():sum() + total end
  return total
end

--- Once more: the sum of the squares of the gradients of fn.
local function slope(fn)
  return function(...)
    local _, grads = neap.value_and_grad(fn)(...)
    return squares(grads)
  end
end

local function differentiable(sample, name, order)
  local floats, fn = of_floats(sample, tensors_of(sample), apply(name, sample))
  if #floats == 0 then return false end
  local loss = function(...) return fn(...):to("fp32"):square():sum() end
  for _ = 2, order do loss = slope(loss) end
  return (pcall(neap.value_and_grad(loss), table.unpack(floats)))
end

--- How many times the op can be differentiated, up to 2, by its first sample with floating-point inputs.
---@param record neap.OpRecord
---@return integer
function M.order(record)
  if record.gradient == "none" or record.gradient == "no" then return 0 end
  for _, text in ipairs(record.samples) do
    local sample = M.parse(text)
    if differentiable(sample, record.name, 1) then return differentiable(sample, record.name, 2) and 2 or 1 end
  end
  return 0
end

-- Batches ----------------------------------------------------------------------------------------------

--- The sample with BATCH entries in dimension 1 of input 1, and of the others that have as many there (`alike`).
local function with_batch(sample, alike, batch)
  local out, dims = {inputs = {}, options = sample.options}, {}
  local n = sample.inputs[1] and sample.inputs[1].shape[1]
  if not n or n == 0 then return nil end
  for i, input in ipairs(sample.inputs) do
    local carries = i == 1 or alike and input.shape[1] == n
    local shape = {table.unpack(input.shape)}
    if carries then shape[1] = batch end
    dims[i] = carries and 1 or false
    out.inputs[i] = {dtype = input.dtype, shape = shape, below = input.below, positive = input.positive}
  end
  return out, dims
end

local function shape_of(sample, name)
  local ok, y = pcall(apply(name, sample), table.unpack(tensors_of(sample)))
  return ok and table.concat(y.shape, ",") or nil
end

--- What micro-batches of half the batch do to an update: "bits", "rounding", false (other samples matter), or nil.
local function exactness(sample, dims, name)
  local anchor = neap.nn.module("Anchor", {init = function(self) self.p = neap.nn.parameter {shape = {1}} end})()
  local update = neap.update {
    loss = function(...)
      return apply(name, sample)(...):to("fp32"):sum() + anchor.p:sum()
    end,
    optimizer = neap.optim.sgd {params = anchor:parameters(), lr = 0.1}, batch_dims = dims, grain = 1,
  }
  local inputs = tensors_of(sample)
  local ok, plan = pcall(update.predict_memory, update, {inputs = inputs, micro_batch = MICRO})
  if not ok or type(plan) ~= "table" then return nil end
  return plan.exact
end

local function way_of(record, text, alike)
  local sample = M.parse(text)
  local small, dims = with_batch(sample, alike, BATCH)
  if not small then return nil end
  local one, two = shape_of(small, record.name), shape_of(with_batch(sample, alike, 2 * BATCH), record.name)
  if not one or not two then return nil end
  local exact = exactness(small, dims, record.name)
  if exact == nil then return "whole" end
  if exact == false then return "mix" end
  return one == two and "sums" or "samples"
end

--- In which ways the op treats the samples of a batch, over all its samples: a set of "samples" (one by one), "sums"
--- (over them), "mix" (they depend on each other), "whole" (they cannot be cut).
---@param record neap.OpRecord
---@return table<string, boolean>
function M.batch(record)
  local ways = {}
  for _, text in ipairs(record.samples) do
    local way = way_of(record, text, true)
    if way == nil or way == "whole" then way = way_of(record, text, false) or way end
    if way then ways[way] = true end
  end
  return ways
end

return M
