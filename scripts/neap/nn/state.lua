--- What every module can do with its parameters and buffers: list, copy, load, freeze, switch modes.
local check = require "neap.check"
local module = require "neap.nn.module"

---@class neap.Module
local methods = module.methods
local STATE = module.STATE

--- Iterates over path, tensor in order of assignment.
---@return fun(): string?, neap.Tensor?
function methods:named_parameters()
  local list, i = module.slots(self), 0
  return function()
    i = i + 1
    if list[i] then return list[i].path, list[i].slot.tensor end
  end
end

--- Copies of all parameters and buffers by path, for `neap.save` or `load_state`.
---@return table<string, neap.Tensor>
function methods:state()
  local copies = {}
  for _, item in ipairs(module.tensors(self)) do copies[item.path] = item.tensor:clone() end
  return copies
end

local function differences(list, values)
  local missing, unexpected, known = {}, {}, {}
  for _, item in ipairs(list) do
    known[item.path] = true
    if values[item.path] == nil then missing[#missing + 1] = item.path end
  end
  for _, path in ipairs(check.sorted_keys(values)) do
    if not known[path] then unexpected[#unexpected + 1] = path end
  end
  return missing, unexpected
end

--- Copies values into parameters and buffers by path: all that fit, or an error and none.
---@param values table<string, neap.Tensor>
---@param options? {strict: boolean} missing or unexpected paths are an error (default {strict = true})
---@return string[] missing paths
---@return string[] unexpected paths
function methods:load_state(values, options)
  check.value("load_state", "the table", values, {kind = "table"})
  local o = check.options("load_state", options, {strict = {kind = "boolean", default = true}})
  local list = module.tensors(self)
  local missing, unexpected = differences(list, values)
  if o.strict and #missing + #unexpected > 0 then
    check.fail("NOT_FOUND", "load_state: missing: %s; unexpected: %s", table.concat(missing, ", "),
               table.concat(unexpected, ", "))
  end
  for _, item in ipairs(list) do
    local v = values[item.path]
    if v ~= nil then check.fits("load_state", ("%q"):format(item.path), v, item.tensor) end
  end
  for _, item in ipairs(list) do
    if values[item.path] ~= nil then item.tensor:copy_(values[item.path]) end
  end
  return missing, unexpected
end

local function set_training(self, on)
  module.modules(self, function(_, m)
    local state = m[STATE]
    if state.training ~= on then
      state.training = on
      module.changed(state)
    end
  end)
  return self
end

--- Switches this module and all below it to training mode, in which it begins.
---@return neap.Module self
function methods:train() return set_training(self, true) end

--- Switches this module and all below it to evaluation mode: no dropout, running statistics in batch norm.
---@return neap.Module self
function methods:eval() return set_training(self, false) end

--- Which modules below are in training mode, to be given back to `restore_modes`.
---@return table
function methods:modes()
  local saved = {}
  module.modules(self, function(_, m) saved[#saved + 1] = {m[STATE], m[STATE].training} end)
  return saved
end

--- Puts modes back as `modes()` found them.
---@param saved table
---@return neap.Module self
function methods:restore_modes(saved)
  for _, pair in ipairs(saved) do
    local state, training = pair[1], pair[2]
    if state.training ~= training then
      state.training = training
      module.changed(state)
    end
  end
  return self
end

--- A path matches when it, or that of a module above it, is the pattern or matches it as a Lua pattern as a whole.
local function matches(what, path, pattern)
  local whole, stop = "^" .. pattern .. "$", 0
  repeat
    stop = path:find(".", stop + 1, true)
    local part = stop and path:sub(1, stop - 1) or path
    if part == pattern then return true end
    local ok, found = pcall(string.find, part, whole)
    if not ok then check.fail("INVALID", "%s: %q is no Lua pattern: %s", what, pattern, found) end
    if found then return true end
  until not stop
  return false
end

--- Calls visit(item) for each parameter that matches (nil: all); one at least must.
local function matching(self, what, pattern, visit)
  if pattern ~= nil then check.value(what, "the pattern", pattern, {kind = "string"}) end
  local found, paths = false, {}
  module.walk(self, function(path, item)
    if item.kind ~= "parameter" then return end
    paths[#paths + 1] = path
    if pattern == nil or matches(what, path, pattern) then
      visit(item)
      found = true
    end
  end)
  if pattern and not found then
    check.fail("NOT_FOUND", "%s: no parameter matches %q; there are %s", what, pattern, table.concat(paths, ", "))
  end
end

--- The parameters, each once, in order of assignment: what an optimizer takes. With a pattern those that match, for
--- an optimizer's groups: `{params = net:parameters ".*bias", weight_decay = 0}`
---@param pattern? string as for `freeze`
---@return neap.Tensor[]
function methods:parameters(pattern)
  local list, wanted = {}, {}
  matching(self, "parameters", pattern, function(item) wanted[item.value] = true end)
  for _, item in ipairs(module.slots(self)) do
    if wanted[item.slot] then list[#list + 1] = item.slot.tensor end
  end
  return list
end

--- A module whose own parameters are all frozen is frozen itself: batch norm then stays in evaluation mode.
local function mark_modules(self)
  module.modules(self, function(_, m)
    local state, all, any = m[STATE], true, false
    for _, item in ipairs(state.order) do
      if item.kind == "parameter" then
        all, any = all and item.value.frozen or false, true
      end
    end
    state.frozen = all and any or nil
    module.changed(state)
  end)
end

local function set_frozen(self, what, pattern, frozen)
  matching(self, what, pattern, function(item) item.value.frozen = frozen end)
  mark_modules(self)
  return self
end

--- Stops the training of parameters: no gradients, moments or saved activations for them (an optimizer that was made
--- before keeps its moments). A module whose own parameters are all frozen stays in evaluation mode (batch norm keeps
--- its statistics).
---@param pattern? string a path, a module's path, or a Lua pattern that is to match one of these as a whole; nil is all
---@return neap.Module self
function methods:freeze(pattern) return set_frozen(self, "freeze", pattern, true) end

--- Trains parameters again.
---@param pattern? string as for `freeze`
---@return neap.Module self
function methods:unfreeze(pattern) return set_frozen(self, "unfreeze", pattern, nil) end

--- Prints layers, output shapes, parameters and bytes, and returns the same text. Nothing is run.
---@param ... integer[] shape of each input, with the batch: `{8, 64}`, or `{8, 64, dtype = "int64"}`
---@return string
function methods:summary(...)
  local text = require("neap.nn.summary").table(self, module, ...)
  print(text)
  return text
end
