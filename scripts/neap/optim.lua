--- Optimizers, with PyTorch's names, defaults and arithmetic.
---
---   local opt = neap.optim.adamw {params = model:parameters(), lr = 1e-3}
---   opt.lr = 5e-4                     -- takes effect at the next update
---   opt.groups[1].lr = 1e-4           -- where groups were given
local core = require "neap.core"
local check = require "neap.check"
local module = require "neap.nn.module"

---@class neap.optim
local M = {}

---@class neap.Optimizer
---@field lr number
---@field groups table[]?
local Optimizer = {__name = "neap.optimizer"}
Optimizer.__index = Optimizer

local STATE = {} -- the key of what is not a setting

local rate = {kind = "number", min = 0}
local fraction = {kind = "number", min = 0, below = 1}
local flag = {kind = "boolean"}

-- What each kind is set by. `core` is what the engine calls it, `moments` the names of its buffers.
local kinds = {
  sgd = {
    core = "sgd", moments = {"momentum_buffer"}, required = {lr = true},
    specs = {lr = rate, momentum = rate, weight_decay = rate, nesterov = flag, maximize = flag},
    defaults = {momentum = 0, weight_decay = 0, nesterov = false, maximize = false},
  },
  adam = {
    core = "adam", moments = {"exp_avg", "exp_avg_sq"}, required = {},
    specs = {lr = rate, betas = {kind = "table"}, eps = rate, weight_decay = rate, maximize = flag},
    defaults = {lr = 1e-3, eps = 1e-8, weight_decay = 0, maximize = false}, decoupled = false,
  },
  adamw = {
    core = "adam", moments = {"exp_avg", "exp_avg_sq"}, required = {},
    specs = {lr = rate, betas = {kind = "table"}, eps = rate, weight_decay = rate, maximize = flag},
    defaults = {lr = 1e-3, eps = 1e-8, weight_decay = 1e-2, maximize = false}, decoupled = true,
  },
  rmsprop = {
    core = "rmsprop", moments = {"square_avg", "momentum_buffer"}, required = {},
    specs = {lr = rate, alpha = {kind = "number", min = 0, max = 1}, eps = rate, weight_decay = rate, momentum = rate,
             maximize = flag},
    defaults = {lr = 1e-2, alpha = 0.99, eps = 1e-8, weight_decay = 0, momentum = 0, maximize = false},
  },
  adagrad = {
    core = "adagrad", moments = {"sum"}, required = {},
    specs = {lr = rate, lr_decay = rate, eps = rate, weight_decay = rate, maximize = flag},
    defaults = {lr = 1e-2, lr_decay = 0, eps = 1e-10, weight_decay = 0, maximize = false},
  },
  lion = {
    core = "lion", moments = {"exp_avg"}, required = {},
    specs = {lr = rate, betas = {kind = "table"}, weight_decay = rate, maximize = flag},
    defaults = {lr = 1e-4, weight_decay = 0, maximize = false}, betas = {0.9, 0.99},
  },
}

---@param v any
---@return boolean
function M.is_optimizer(v)
  return type(v) == "table" and getmetatable(v) == Optimizer
end

-- Settings ---------------------------------------------------------------------------------------------

local function check_setting(what, kind, name, v)
  local spec = kind.specs[name]
  check.value(what, name, v, spec)
  if spec.kind == "number" and v == math.huge then
    check.fail("INVALID", "%s: %s is infinite, expected a finite number", what, name)
  end
  if name == "betas" then
    if #v ~= 2 then check.fail("INVALID", "%s: betas has %d entries, expected 2", what, #v) end
    for i = 1, 2 do check.value(what, ("betas[%d]"):format(i), v[i], fraction) end
  end
end

local function check_known(what, kind, options, also)
  for name in pairs(options) do
    if type(name) ~= "string" or not kind.specs[name] and not also[name] then
      local known = check.sorted_keys(kind.specs)
      for _, extra in ipairs(check.sorted_keys(also)) do known[#known + 1] = extra end
      check.fail("INVALID", "%s: there is no option %q; options are %s", what, tostring(name),
                 table.concat(known, ", "))
    end
  end
end

--- A group's own setting, or the optimizer's.
local function setting(self, group, name)
  local v = group[name]
  if v == nil then v = self[name] end
  return v
end

local function check_nesterov(self, group, what)
  if setting(self, group, "nesterov") and setting(self, group, "momentum") == 0 then
    check.fail("INVALID", "%s: nesterov needs a momentum above 0", what)
  end
end

local function read_settings(self, what, kind, options)
  check_known(what, kind, options, {params = true, groups = true})
  for name in pairs(kind.specs) do
    local v = options[name]
    if v == nil then v = kind.defaults[name] end
    if name == "betas" and type(v) ~= "nil" then
      v = type(v) == "table" and {table.unpack(v)} or v
    elseif name == "betas" then
      v = {table.unpack(kind.betas or {0.9, 0.999})}
    end
    if v == nil and kind.required[name] then check.fail("INVALID", "%s: the option %q is missing", what, name) end
    check_setting(what, kind, name, v)
    self[name] = v
  end
end

local function read_group(self, what, kind, given)
  check.value(what, "a group", given, {kind = "table"})
  check_known(what, kind, given, {params = true})
  local group = {}
  for name, v in pairs(given) do
    if name ~= "params" then
      check_setting(what, kind, name, v)
      group[name] = v
    end
  end
  check_nesterov(self, group, what)
  return group
end

--- A misspelt setting would otherwise be taken and do nothing.
function Optimizer:__newindex(name, v)
  local state = self[STATE]
  if name ~= "groups" and not state.kind.specs[name] then
    check.fail("INVALID", "%s: there is no setting %q; settings are %s", state.what, tostring(name),
               table.concat(check.sorted_keys(state.kind.specs), ", "))
  end
  rawset(self, name, v)
end

-- Parameters -------------------------------------------------------------------------------------------

--- A list of parameters: given as one, or as a module.
local function param_list(what, params)
  if module.is_module(params) then return params:parameters() end
  check.value(what, "params", params, {kind = "table"})
  for i, p in ipairs(params) do
    if not check.is_tensor(p) or not core.is_parameter(p) then
      check.fail("INVALID", "%s: params[%d] is %s, expected a parameter as model:parameters() lists them", what, i,
                 check.describe(p))
    end
  end
  if #params == 0 then check.fail("INVALID", "%s: params is an empty list, expected parameters", what) end
  return params
end

local function add_params(state, what, params, group)
  for _, p in ipairs(param_list(what, params)) do
    if state.seen[p] then
      check.fail("INVALID", "%s: the parameter %q is given twice", what, module.path_of(p) or check.describe(p))
    end
    state.seen[p] = true
    state.params[#state.params + 1], state.group_of[#state.group_of + 1] = p, group
  end
end

--- Names of the parameters: their paths, or positions where paths are unknown or not unique.
local function name_params(state)
  local names, used = {}, {}
  for i, p in ipairs(state.params) do
    local path = module.path_of(p)
    if not path or used[path] then
      for k = 1, #state.params do names[k] = tostring(k) end
      break
    end
    names[i], used[path] = path, true
  end
  state.names = names
end

local function group_settings(self, group)
  local state, all = self[STATE], {}
  for name in pairs(state.kind.specs) do all[name] = setting(self, group, name) end
  all.decoupled = state.kind.decoupled
  return all
end

local function sent_settings(self, group)
  local sent = group_settings(self, group)
  local betas = sent.betas
  if betas then sent.betas, sent.beta1, sent.beta2 = nil, betas[1], betas[2] end
  return sent
end

--- Says what all of the state takes: one refused block alone would not tell the user.
local function explain(state, problem)
  if type(problem) ~= "table" or problem.code ~= "OOM" then return problem end
  local bytes = 0
  for _, p in ipairs(state.params) do bytes = bytes + 4 * p:numel() end
  return core.error("OOM", ("%s: %s of parameters have state of up to %d times that, which does not fit (%s)"):format(
    state.what, core.format_bytes(bytes), #state.kind.moments, problem.message), {bytes = problem.bytes})
end

--- Makes the engine's side once parameters are known: moments are reserved here.
local function open(self)
  local state = self[STATE]
  name_params(state)
  local settings = {}
  state.sent = {}
  for i, group in ipairs(state.groups) do
    settings[i], state.sent[i] = group_settings(self, group), sent_settings(self, group)
  end
  local ok, made = pcall(core.optimizer, state.kind.core, state.params, state.group_of, settings)
  if not ok then error(explain(state, made), 0) end
  state.core = made
end

local function read_groups(self, what, kind, groups)
  check.value(what, "groups", groups, {kind = "table"})
  if #groups == 0 then check.fail("INVALID", "%s: groups is an empty list, expected {params =, lr =}", what) end
  self.groups = {}
  for i, given in ipairs(groups) do
    self.groups[i] = read_group(self, what, kind, given)
    add_params(self[STATE], what, given.params, i)
  end
  self[STATE].groups = self.groups
end

local function construct(name, options)
  local what, kind = "optim." .. name, kinds[name]
  check.value(what, "the options", options, {kind = "table"})
  local state = {kind = kind, name = name, what = what, params = {}, group_of = {}, seen = {}, groups = {{}}}
  local self = setmetatable({[STATE] = state}, Optimizer)
  read_settings(self, what, kind, options)
  check_nesterov(self, {}, what)
  if options.groups then
    if options.params then check.fail("INVALID", "%s: give params or groups, not both", what) end
    read_groups(self, what, kind, options.groups)
  elseif options.params then
    add_params(state, what, options.params, 1)
  end
  if #state.params > 0 then open(self) end
  return self
end

--- Stochastic gradient descent: {params=, lr=, momentum=, nesterov=, weight_decay=, maximize=, groups=}
---@return neap.Optimizer
function M.sgd(options) return construct("sgd", options) end

--- Adam (Kingma and Ba 2014): {params=, lr=, betas=, eps=, weight_decay=, maximize=, groups=}
---@return neap.Optimizer
function M.adam(options) return construct("adam", options) end

--- Adam with decoupled weight decay (Loshchilov and Hutter 2019); options as adam's
---@return neap.Optimizer
function M.adamw(options) return construct("adamw", options) end

--- RMSprop (Tieleman and Hinton 2012): {params=, lr=, alpha=, eps=, momentum=, weight_decay=, maximize=, groups=}
---@return neap.Optimizer
function M.rmsprop(options) return construct("rmsprop", options) end

--- Adagrad (Duchi et al. 2011): {params=, lr=, lr_decay=, eps=, weight_decay=, maximize=, groups=}
---@return neap.Optimizer
function M.adagrad(options) return construct("adagrad", options) end

--- Lion (Chen et al. 2023): {params=, lr=, betas=, weight_decay=, maximize=, groups=}; weight decay is decoupled
---@return neap.Optimizer
function M.lion(options) return construct("lion", options) end

--- Schedules of learning rates: optim.schedule.cosine {total = 1000}
M.schedule = require "neap.schedule"

-- For the standard library -----------------------------------------------------------------------------

--- The settings tables that hold a learning rate: the groups', or the optimizer itself.
---@return table[]
function Optimizer:rated()
  local list = {}
  for _, group in ipairs(self[STATE].groups) do
    if group.lr then list[#list + 1] = group end
  end
  list[#list + 1] = self
  return list
end

--- Gives parameters to an optimizer that was made without.
---@param params neap.Tensor[]|neap.Module
function Optimizer:bind(params)
  local state = self[STATE]
  if state.core then return end
  add_params(state, state.what, params, 1)
  open(self)
end

---@return boolean
function Optimizer:is_bound()
  return self[STATE].core ~= nil
end

--- The engine's optimizer.
---@return userdata
function Optimizer:handle()
  local state = self[STATE]
  if not state.core then
    check.fail("INVALID", "%s: it has no parameters; give params = model:parameters()", state.what)
  end
  return state.core
end

local function send(self, i, group)
  local state = self[STATE]
  for name in pairs(state.kind.specs) do check_setting(state.what, state.kind, name, setting(self, group, name)) end
  check_nesterov(self, group, state.what)
  state.core:set(i, group_settings(self, group))
  state.sent[i] = sent_settings(self, group)
end

local function differs(self, group, sent, specs)
  for name in next, specs do
    local v = setting(self, group, name)
    if name == "betas" then
      if type(v) ~= "table" or v[1] ~= sent.beta1 or v[2] ~= sent.beta2 then return true end
    elseif name ~= "lr" and v ~= sent[name] then
      return true
    end
  end
  return false
end

--- Tells the engine of settings that changed. Takes no memory while nothing but lr did.
function Optimizer:sync()
  local state = self[STATE]
  for i = 1, #state.groups do
    local group, sent = state.groups[i], state.sent[i]
    if differs(self, group, sent, state.kind.specs) then
      send(self, i, group)
    elseif setting(self, group, "lr") ~= sent.lr then
      local lr = setting(self, group, "lr")
      check_setting(state.what, state.kind, "lr", lr)
      state.core:lr(i, lr)
      sent.lr = lr
    end
  end
end

-- Steps ------------------------------------------------------------------------------------------------

local function gradient_list(state, grads)
  if #grads > 0 and #grads ~= #state.params then
    check.fail("INVALID", "%s: step got a list of %d gradients for %d parameters", state.what, #grads, #state.params)
  end
  local list, found = {}, 0
  for i, p in ipairs(state.params) do
    local g = grads[p] or grads[state.names[i]] or grads[i] or false
    if g and not check.is_tensor(g) then
      check.fail("INVALID", "%s: the gradient of %q is %s, expected a tensor", state.what, state.names[i],
                 check.describe(g))
    end
    list[i], found = g, found + (g and 1 or 0)
  end
  if found == 0 then
    check.fail("INVALID", "%s: step got no gradient of its parameters (%s, ...)", state.what, state.names[1])
  end
  return list
end

--- Takes one step. Parameters without a gradient stay as they are.
---@param grads table by path, as nn.value_and_grad gives them, by parameter, or a list in params' order
function Optimizer:step(grads)
  local handle, state = self:handle(), self[STATE]
  check.value(state.what, "the gradients", grads, {kind = "table"})
  self:sync()
  handle:apply(gradient_list(state, grads))
end

--- Committed updates so far.
---@return integer
function Optimizer:step_count()
  return self:handle():step_count()
end

-- State ------------------------------------------------------------------------------------------------

--- Moments by name and parameter, not copied: {exp_avg = {["fc1.weight"] = tensor}, ...}
---@return table<string, table<string, neap.Tensor>>
function Optimizer:moments()
  local handle, state, all = self:handle(), self[STATE], {}
  for k, name in ipairs(state.kind.moments) do
    local list = handle:moments(k)
    if list and #list > 0 then
      all[name] = {}
      for i, tensor in ipairs(list) do all[name][state.names[i]] = tensor end
    end
  end
  return all
end

--- Settings of each group, as plain tables.
---@return table[]
function Optimizer:settings()
  local list = {}
  for i, group in ipairs(self[STATE].groups) do list[i] = group_settings(self, group) end
  for _, settings in ipairs(list) do settings.decoupled = nil end
  return list
end

--- Everything that a later run needs to go on: {kind=, step=, groups=, moments=}, copied.
---@return table
function Optimizer:state()
  local copies = {}
  for name, tensors in pairs(self:moments()) do
    copies[name] = {}
    for key, tensor in pairs(tensors) do copies[name][key] = tensor:clone() end
  end
  return {kind = self[STATE].name, step = self:step_count(), groups = self:settings(), moments = copies}
end

--- "sgd", "adam", "adamw", ...
---@return string
function Optimizer:kind()
  return self[STATE].name
end

--- Raises unless kind, step and groups of a state fit this optimizer.
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
  for i, settings in ipairs(saved.groups) do
    check.value(state.what, ("the state's group %d"):format(i), settings, {kind = "table"})
    for name, v in pairs(settings) do
      if state.kind.specs[name] then check_setting(state.what, state.kind, name, v) end
    end
  end
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
  for i, settings in ipairs(groups) do
    local group = state.groups[i]
    for name, v in pairs(settings) do
      local target = group[name] ~= nil and group or self
      if state.kind.specs[name] then target[name] = v end
    end
  end
  self:sync()
end

--- Settings and step count of a checked state: both, or an error (what the engine's optimizer was not made for)
--- and none.
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
