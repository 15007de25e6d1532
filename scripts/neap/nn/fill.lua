--- First values of parameters. Each draw is seeded by the engine's seed, the place of the model among those that
--- were used since the seed was set, and the parameter's path, so that adding a layer does not change the others.
local core = require "neap.core"
local check = require "neap.check"
local initializers = require "neap.nn.initializers"
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

--- Checks nn.parameter's options and makes a slot of them.
function M.slot(options)
  local o = check.options("nn.parameter", options, {
    shape = {kind = "any", required = true},
    init = {kind = "any", default = "kaiming_uniform"},
    fan_in = {kind = "integer", min = 0},
    dtype = {kind = "string", default = "fp32"},
  })
  local kind = type(o.init)
  local rule, settings = initializers.read("nn.parameter", o.init)
  if not rule and not (kind == "number" or kind == "function" or check.is_tensor(o.init)) then
    check.fail("INVALID", "nn.parameter: init is %s; expected one of %s, a number, a tensor or a function of the shape",
               check.describe(o.init), table.concat(check.sorted_keys(initializers.rules), ", "))
  end
  return {
    shape = check_shape(o.shape), init = o.init, fan_in = o.fan_in, dtype = o.dtype, rule = rule, settings = settings,
  }
end

local function same_shape(a, b)
  if #a ~= #b then return false end
  for i = 1, #a do
    if a[i] ~= b[i] then return false end
  end
  return true
end

--- The first value of a slot, as its init gives it.
---@param slot table
---@return any
function M.value(slot)
  local init = slot.init
  if slot.rule then return slot.rule(slot, slot.settings) end
  if type(init) == "number" then return core.full(slot.shape, init, {dtype = slot.dtype}) end
  if type(init) == "function" then return init(slot.shape) end
  return init:clone()
end

local function draw(slot, path)
  local tensor = M.value(slot)
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

-- Models in the order in which they were first drawn since the seed was set.
local roots = {count = 0, place = setmetatable({}, {__mode = "k"})}

--- Sets the seed of all that is drawn from now on. Models drawn after it count from 1 again.
---@param seed integer
function M.manual_seed(seed)
  core.manual_seed(seed)
  roots.count, roots.place = 0, setmetatable({}, {__mode = "k"})
end

--- Two models of the same layout have the same paths, and must not have the same values. The first one's seed is
--- the engine's, so that a script with one model draws as if there were no others.
local function seed_of(root, seed)
  if not roots.place[root] then
    roots.count = roots.count + 1
    roots.place[root] = roots.count
  end
  local place = roots.place[root]
  return place == 1 and seed or random.key(seed, place)
end

local function draw_each(list, seed, bytes)
  local drawn = {}
  for i, item in ipairs(list) do
    core.random_state(random.hash(item.path, seed), 0)
    local ok, tensor = pcall(draw, item.slot, item.path)
    if not ok then
      for k = 1, i - 1 do drawn[k]:close() end
      error(explain(tensor, item.path, bytes), 0)
    end
    drawn[i] = tensor
  end
  return drawn
end

local function draw_all(list, seed, bytes)
  local before, position = core.random_state()
  return check.finally(function() core.random_state(before, position) end, draw_each, list, seed, bytes)
end

--- Draws all parameters below root that have no values yet: all of them, or an error and none.
---@param root neap.Module
---@param walk function module.walk
---@param slot_of table<neap.Tensor, table>
function M.draw(root, walk, slot_of)
  local list, bytes = undrawn(root, walk)
  if #list == 0 then return end
  local drawn = draw_all(list, seed_of(root, (core.random_state())), bytes)
  for i, item in ipairs(list) do
    item.slot.tensor, item.slot.path = drawn[i], item.path
    slot_of[drawn[i]] = item.slot
  end
end

return M
