--- Neural network modules.
---
---   local net = nn.Sequential {nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 10)}
---   local Block = nn.module("Block", {
---     init = function(self, width) self.fc = nn.Linear(width, width) end,
---     forward = function(self, x) return x + self.fc(x):relu() end,
---   })
local check = require "neap.check"
local module = require "neap.nn.module"
local layers = require "neap.nn.layers"
local conv = require "neap.nn.conv"
local activations = require "neap.nn.activations"
local containers = require "neap.nn.containers"
local initializers = require "neap.nn.initializers"
local losses = require "neap.nn.losses"
local pooling = require "neap.nn.pooling"
local rearrange = require "neap.nn.rearrange"
local norm = require "neap.nn.norm"
local attention = require "neap.nn.attention"
local rnn = require "neap.nn.rnn"
local clip = require "neap.nn.clip"
local transformer = require "neap.nn.transformer"
require "neap.nn.state"

---@class neap.nn
---@field init neap.nn.init
local M = {
  module = module.module, parameter = module.parameter, buffer = module.buffer,
  is_module = module.is_module, is_training = module.is_training, init = initializers.functions,
}
for _, list in ipairs {
  layers, conv, pooling, rearrange, activations, containers, norm, attention, transformer, rnn, losses, clip,
} do
  for name, constructor in pairs(list) do M[name] = constructor end
end

--- A function as a layer without parameters.
local Function = module.module("Function", {
  init = function(self, fn) self.fn = fn end,
  forward = function(self, ...) return self.fn(...) end,
}, true)

local function as_layer(i, v)
  if module.is_module(v) then return tostring(i), v end
  if type(v) == "table" and #v == 2 and type(v[1]) == "string" then
    local _, inner = as_layer(i, v[2])
    return v[1], inner
  end
  if check.is_callable(v) then return tostring(i), Function(v) end
  check.fail("INVALID", "nn.Sequential: entry %d is %s, expected a module, a function or {name, module}", i,
             check.describe(v))
end

--- Layers one after the other. Paths are "1", "2", ..., or names.
---@param entries table[] modules, functions of one tensor, or `{"name", module}` where a path should have a name
---@return neap.Module
M.Sequential = module.module("Sequential", {
  init = function(self, entries)
    check.value("nn.Sequential", "the list of layers", entries, {kind = "table"})
    if module.is_module(entries) then check.fail("INVALID", "nn.Sequential: expected a list of layers in braces") end
    local names, seen = {}, {}
    for i, v in ipairs(entries) do
      local name, inner = as_layer(i, v)
      if seen[name] then check.fail("INVALID", "nn.Sequential: two layers are named %q", name) end
      self[name] = inner
      names[i], seen[name] = name, true
    end
    if next(entries) ~= nil and #names == 0 then
      check.fail("INVALID", "nn.Sequential: named layers have no order in a table; write {\"name\", module}")
    end
    self.names = names
  end,
  forward = function(self, x)
    for _, name in ipairs(self.names) do x = self[name](x) end
    return x
  end,
}, true)

--- A function that computes fn's value and the gradients of the module's parameters, traced as `neap.compile` says.
--- With `optimizer:step(gradients)` it makes a training loop of small parts; `neap.update` does the same, to the same
--- bits, as one transaction. Frozen parameters have no gradient. Inside of what is traced it is as
--- `neap.value_and_grad`.
---@param m neap.Module
---@param fn fun(...): neap.Tensor, ... returns the value to differentiate, one number, then others
---@return fun(...): neap.Tensor, table<string, neap.Tensor>, ... # the value, gradients by path, fn's other results
function M.value_and_grad(m, fn)
  if not module.is_module(m) then
    check.fail("INVALID", "nn.value_and_grad: got %s, expected a module and a function", check.describe(m))
  end
  return require("neap.program").gradients(fn, "nn.value_and_grad", function()
    local paths, tensors = {}, {}
    for _, item in ipairs(module.slots(m)) do
      if not item.slot.frozen then
        paths[#paths + 1], tensors[#tensors + 1] = item.path, item.slot.tensor
      end
    end
    return {tensors = tensors}, paths
  end)
end

return M
