--- What an optimizer saves and goes back to: settings, step count and moments.
local check = require "neap.check"
local settings = require "neap.optim.settings"

local M = {}

--- The key under which an optimizer keeps what is not a setting.
M.KEY = {}
local STATE = M.KEY

---@class neap.Optimizer
local Optimizer = {}
M.methods = Optimizer

--- Moments by name and parameter, not copied: `{exp_avg = {["fc1.weight"] = tensor}, ...}`.
---@return table<string, table<string, neap.Tensor>>
function Optimizer:moments()
  local handle, state, all = self:handle(), self[STATE], {}
  local k, list, name = 1, handle:moments(1)
  while name do
    all[name] = {}
    for i, tensor in ipairs(list) do all[name][state.names[i]] = tensor end
    k = k + 1
    list, name = handle:moments(k)
  end
  return all
end

--- Settings of each group, as plain tables, and NAdam's product of momenta so far.
---@return table[]
function Optimizer:settings()
  local list, state = {}, self[STATE]
  for i, group in ipairs(state.groups) do
    list[i] = settings.all(self, group, state.kind)
    if state.kind.core == "nadam" then list[i].mu_product = self:handle():mu_product(i) end
  end
  return list
end

--- Everything that a later run needs to go on: `{kind =, step =, groups =, moments =}`, copied.
---@return table
function Optimizer:state()
  local copies = {}
  for name, tensors in pairs(self:moments()) do
    copies[name] = {}
    for key, tensor in pairs(tensors) do copies[name][key] = tensor:clone() end
  end
  return {kind = self[STATE].name, step = self:step_count(), groups = self:settings(), moments = copies}
end

--- The name of its constructor: "sgd", "adam", "adamw", ...
---@return string
function Optimizer:kind()
  return self[STATE].name
end

local product = {kind = "number", min = 0, max = 1}

local function same(a, b)
  if type(a) ~= "table" or type(b) ~= "table" then return a == b end
  return #a == #b and table.concat(a, " ") == table.concat(b, " ")
end

--- What groups do not set themselves is the optimizer's: one value for all of them.
local function check_followers(state, saved)
  for _, name in ipairs(check.sorted_keys(state.kind.specs)) do
    local first
    for i, group in ipairs(state.groups) do
      local follows = group[name] == nil and saved[i][name] ~= nil
      if follows and first and not same(saved[first][name], saved[i][name]) then
        check.fail("INVALID", "%s: the state's groups %d and %d have a %s each; here both follow the optimizer: give "
                   .. "%s to the groups", state.what, first, i, name, name)
      end
      first = first or follows and i
    end
  end
end

--- Raises unless kind, step and groups of a state fit this optimizer.
---@package
---@param saved table
function Optimizer:check_settings(saved)
  local state = self[STATE]
  check.value(state.what, "the state", saved, {kind = "table"})
  if saved.kind ~= state.name then
    check.fail("INVALID", "%s: the state is of %s", state.what, check.describe(saved.kind))
  end
  check.value(state.what, "the state's groups", saved.groups, {kind = "table"})
  if #saved.groups ~= #state.groups then
    check.fail("INVALID", "%s: the state has %d groups, expected %d", state.what, #saved.groups, #state.groups)
  end
  check.value(state.what, "the state's step", saved.step, {kind = "integer", min = 0})
  for i, group in ipairs(saved.groups) do
    check.value(state.what, ("the state's group %d"):format(i), group, {kind = "table"})
    for name, v in pairs(group) do
      if state.kind.specs[name] then settings.check(state.what, state.kind, name, v) end
    end
    if state.kind.core == "nadam" then
      check.value(state.what, ("mu_product of the state's group %d"):format(i), group.mu_product, product)
    end
  end
  check_followers(state, saved.groups)
end

local function check_state(self, saved)
  local state = self[STATE]
  self:check_settings(saved)
  for name, tensors in pairs(self:moments()) do
    check.value(state.what, "the state's moments", saved.moments, {kind = "table"})
    local others = check.value(state.what, "the state's " .. name, saved.moments[name], {kind = "table"})
    for key, tensor in pairs(tensors) do
      check.fits(state.what, ("the state's %s of %q"):format(name, key), others[key], tensor)
    end
  end
end

--- What a group does not set itself follows the optimizer, also after this.
local function put_settings(self, groups)
  local state = self[STATE]
  for i, saved in ipairs(groups) do
    local group = state.groups[i]
    for name, v in pairs(saved) do
      local target = group[name] ~= nil and group or self
      if state.kind.specs[name] then target[name] = type(v) == "table" and {table.unpack(v)} or v end
    end
  end
  self:sync()
  for i, saved in ipairs(groups) do
    if saved.mu_product then self:handle():mu_product(i, saved.mu_product) end
  end
end

--- Settings and step count of a checked state: both, or an error (what the engine's optimizer was not made for)
--- and none.
---@package
---@param saved table
function Optimizer:load_settings(saved)
  local before, handle = self:settings(), self:handle()
  local count = handle:step_count()
  handle:step_count(math.tointeger(saved.step)) -- first: it is refused while an update is unfinished
  local ok, problem = pcall(put_settings, self, saved.groups)
  if ok then return end
  handle:step_count(count)
  put_settings(self, before)
  error(problem, 0)
end

--- Goes back to a state: all of it, or an error and nothing.
---@param saved table as state() gives it
function Optimizer:load_state(saved)
  self:handle()
  check_state(self, saved)
  self:load_settings(saved)
  for name, tensors in pairs(self:moments()) do
    for key, tensor in pairs(tensors) do tensor:copy_(saved.moments[name][key]) end
  end
end

return M
