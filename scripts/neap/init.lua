--- neap: training inside the memory there is. `local neap = require "neap"`
local core = require "neap.core"

-- What the engine itself gives is described in types/neap.lua.
---@class neap
local neap = {}

-- What scripts of this library share with the core, and scripts of users need not see.
local private = {
  parameter = true, is_parameter = true, traced = true, tracing = true, at = true, snapshot = true,
  changed = true, run = true, program = true, optimizer = true, update = true, error = true, memory_holders = true,
  random_state = true, method = true, isatty = true, untraced = true, writable = true, settle = true,
  custom_begin = true, custom_end = true, op_info = true, op_names = true, op_topics = true, variables = true,
  derivatives = true, in_coroutine = true,
}
for name, v in pairs(core) do
  if not private[name] then neap[name] = v end
end

local compare = require "neap.compare"
local program = require "neap.program"
local report = require "neap.report"
local shape = require "neap.shape"
local store = require "neap.store"

--- Seeds all that is drawn from now on by the engine: random tensors, dropout, and the first values of parameters.
--- Two models of one layout do not get the same values: they differ by the order in which they are first used after
--- this. A loader has a seed of its own.
---@param seed integer
function neap.manual_seed(seed) require("neap.nn.fill").manual_seed(seed) end

neap.compile, neap.value_and_grad = program.compile, program.value_and_grad
neap.memory_summary = report.memory_summary
neap.save, neap.load = store.save, store.load
for _, methods in ipairs {shape, compare} do
  for name, fn in pairs(methods) do
    neap[name] = fn
    core.method(name, fn)
  end
end

-- Loaded at first use, so that a host which only runs tensors pays for no more.
local lazy = {
  custom = function() return require "neap.custom" end,
  einsum = function() return require "neap.einsum" end,
  help = function() return require("neap.help").help end,
  meshgrid = function() return require "neap.meshgrid" end,
  nn = function() return require "neap.nn" end,
  optim = function() return require "neap.optim" end,
  data = function() return require "neap.data" end,
  policy = function() return require "neap.policy" end,
  action = function() return require "neap.action" end,
  trainer = function() return require("neap.trainer").new end,
  update = function() return require("neap.update").new end,
  group = function() return require("neap.update").group end,
}

return setmetatable(neap, {
  __index = function(_, name)
    local load = lazy[name]
    if not load then return nil end
    neap[name] = load()
    return neap[name]
  end,
})
