--- First values of parameters. Each draw is seeded by the engine's seed and the parameter's path, so that
--- adding a layer does not change the others.
local core = require "neap.core"
local check = require "neap.check"
local random = require "neap.data.random"

local M = {}

local function check_shape(shape)
  if type(shape) == "number" then shape = {shape} end
  check.value("nn.parameter", "shape", shape, {kind = "table"})
  local copy = {}
  for i, n in ipairs(shape) do
    copy[i] = check.value("nn.parameter", ("shape[%d]"):format(i), n, {kind = "integer", min = 0})
  end
  return copy
end

--- Entries that feed one output: PyTorch counts all dimensions but the first.
local function fan_in(shape)
  local n = 1
  for i = 2, #shape do n = n * shape[i] end
  return #shape > 1 and n or shape[1] or 1
end

--- Replaces t by fn(t) and gives t back at once, so that a draw holds two copies at most.
local function then_close(t, fn)
  local out = fn(t)
  t:close()
  return out
end

local function draw_uniform(shape, dtype, bound)
  local drawn = then_close(core.rand(shape, {dtype = dtype}), function(t) return t * (2 * bound) end)
  return then_close(drawn, function(t) return t - bound end)
end

local PIECE <const> = 65536 -- elements

--- U(-bound, bound). Drawn in pieces, so that a large parameter needs little more than itself.
local function uniform(shape, dtype, bound)
  local count = 1
  for _, n in ipairs(shape) do count = count * n end
  if count <= PIECE then return draw_uniform(shape, dtype, bound) end
  local whole, rows = core.zeros(shape, {dtype = dtype}), math.max(1, PIECE * shape[1] // count)
  for first = 1, shape[1], rows do
    local part = {table.unpack(shape)}
    part[1] = math.min(rows, shape[1] - first + 1)
    local piece <close> = draw_uniform(part, dtype, bound)
    whole:narrow(1, first, part[1]):copy_(piece)
  end
  return whole
end

local rules = {}

--- U(-1/sqrt(fan_in), 1/sqrt(fan_in)): PyTorch's default, kaiming uniform with a = sqrt(5) (He et al. 2015).
function rules.kaiming_uniform(slot)
  local n = slot.fan_in or fan_in(slot.shape)
  return uniform(slot.shape, slot.dtype, n > 0 and 1 / math.sqrt(n) or 0)
end

function rules.zeros(slot) return core.zeros(slot.shape, {dtype = slot.dtype}) end
function rules.ones(slot) return core.ones(slot.shape, {dtype = slot.dtype}) end

--- N(0, 1)
function rules.normal(slot) return core.randn(slot.shape, {dtype = slot.dtype}) end

--- Checks nn.parameter's options and makes a slot of them.
function M.slot(options)
  local o = check.options("nn.parameter", options, {
    shape = {kind = "any", required = true},
    init = {kind = "any", default = "kaiming_uniform"},
    fan_in = {kind = "integer", min = 0},
    dtype = {kind = "string", default = "fp32"},
  })
  local kind = type(o.init)
  if kind == "string" and not rules[o.init] or not (kind == "string" or kind == "number" or kind == "function"
      or check.is_tensor(o.init)) then
    check.fail("INVALID", "nn.parameter: init is %s; expected one of %s, a number, a tensor or a function of the shape",
               check.describe(o.init), table.concat(check.sorted_keys(rules), ", "))
  end
  return {shape = check_shape(o.shape), init = o.init, fan_in = o.fan_in, dtype = o.dtype}
end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

local function value(slot)
  local init = slot.init
  if type(init) == "string" then return rules[init](slot) end
  if type(init) == "number" then return core.full(slot.shape, init, {dtype = slot.dtype}) end
  if type(init) == "function" then return init(slot.shape) end
  return init:clone()
end

local function draw(slot, path)
  local tensor = value(slot)
  if not check.is_tensor(tensor) then
    check.fail("INVALID", "the init of parameter %q gave %s, expected a tensor", path, check.describe(tensor))
  end
  if not same_shape(tensor.shape, slot.shape) then
    check.fail("SHAPE", "the init of parameter %q gave shape %s, expected %s", path,
               check.shape_text(tensor.shape), check.shape_text(slot.shape))
  end
  return core.parameter(tensor)
end

local function undrawn(root, walk)
  local list, bytes = {}, 0
  walk(root, function(path, item)
    local slot = item.value
    if item.kind == "parameter" and not slot.tensor and not list[slot] then
      local count = 1
      for _, n in ipairs(slot.shape) do count = count * n end
      list[slot], bytes = true, bytes + 4 * count
      list[#list + 1] = {slot = slot, path = path}
    end
  end)
  return list, bytes
end

--- Says how much all of the parameters take: one refused tensor alone would not tell the user.
local function explain(problem, path, bytes)
  if type(problem) ~= "table" or problem.code ~= "OOM" then return problem end
  local report = require "neap.report"
  local budget = core.memory().budget
  return core.error("OOM", ("the model's parameters need %s%s; there was no room for %q (%s)"):format(
    report.bytes(bytes), budget and ", the budget is " .. report.bytes(budget) or "", path,
    problem.message), {bytes = bytes})
end

--- Draws all parameters below root that have no values yet: all of them, or an error and none.
---@param root neap.Module
---@param walk function module.walk
---@param slot_of table<neap.Tensor, table>
function M.draw(root, walk, slot_of)
  local list, bytes = undrawn(root, walk)
  local seed, position = core.random_state()
  local drawn = {}
  for i, item in ipairs(list) do
    core.random_state(random.hash(item.path, seed), 0)
    local ok, tensor = pcall(draw, item.slot, item.path)
    if not ok then
      core.random_state(seed, position)
      for k = 1, i - 1 do drawn[k]:close() end
      error(explain(tensor, item.path, bytes), 0)
    end
    drawn[i] = tensor
  end
  core.random_state(seed, position)
  for i, item in ipairs(list) do
    item.slot.tensor, item.slot.path = drawn[i], item.path
    slot_of[drawn[i]] = item.slot
  end
end

return M
