--- Optimizers, with PyTorch's names, defaults and arithmetic.
---
---   local opt = neap.optim.adamw {params = model:parameters(), lr = 1e-3}
---   opt.lr = 5e-4                     -- takes effect at the next update
---   opt.groups[1].lr = 1e-4           -- where groups were given
---
--- All take {params=, groups=, lr=, weight_decay=, maximize=} and what is said of each. params: a list as
--- model:parameters() gives it, or the model; groups: a list of {params=, ...} with settings of their own. What is
--- frozen when the optimizer is made is left out: it has no moments.
local core = require "neap.core"
local check = require "neap.check"
local kinds = require "neap.optim.kinds"
local module = require "neap.nn.module"
local settings = require "neap.optim.settings"
local state_of = require "neap.optim.state"

---@class neap.optim
---@field schedule neap.optim.schedule
local M = {}

--- Settings are fields: `optimizer.lr = 5e-4` takes effect at the next update, and so does `optimizer.groups[1].lr`.
--- A group follows the optimizer in what it does not set itself. Moments lie in flat buffers beside the parameters and
--- count as `optimizer` in `neap.memory().by_owner`.
---@class neap.Optimizer
---@field lr number
---@field groups table[]? the groups, when it was made with some
---@field [string] any every other setting by its name
local Optimizer = {__name = "neap.optimizer"}
Optimizer.__index = Optimizer

local STATE = state_of.KEY -- the key of what is not a setting

--- Whether v is an optimizer.
---@param v any
---@return boolean
function M.is_optimizer(v)
  return type(v) == "table" and getmetatable(v) == Optimizer
end

--- A misspelt setting would otherwise be taken and do nothing.
function Optimizer:__newindex(name, v)
  local state = self[STATE]
  if not state.kind.specs[name] then
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
    if module.is_frozen(p) then
      state.frozen[#state.frozen + 1] = p
    else
      state.params[#state.params + 1], state.group_of[#state.group_of + 1] = p, group
    end
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

local MOST_MOMENTS <const> = 3

--- Says what all of the state takes: one refused block alone would not tell the user.
local function explain(state, problem)
  if type(problem) ~= "table" or problem.code ~= "OOM" then return problem end
  local bytes = 0
  for _, p in ipairs(state.params) do bytes = bytes + 4 * p:numel() end
  return core.error("OOM", ("%s: %s of parameters have state of up to %d times that, which does not fit (%s)"):format(
    state.what, core.format_bytes(bytes), MOST_MOMENTS, problem.message), {bytes = problem.bytes})
end

--- Makes the engine's side once parameters are known: moments are reserved here.
local function open(self)
  local state, sent = self[STATE], {}
  if #state.params == 0 then
    check.fail("INVALID", "%s: all of its %d parameters are frozen", state.what, #state.frozen)
  end
  name_params(state)
  state.sent = {}
  for i, group in ipairs(state.groups) do
    sent[i], state.sent[i] = settings.for_core(self, group, state.kind), settings.sent(self, group, state.kind)
  end
  local ok, made = pcall(core.optimizer, state.kind.core, state.params, state.group_of, sent)
  if not ok then error(explain(state, made), 0) end
  state.core = made
end

local function read_groups(self, what, kind, groups)
  check.value(what, "groups", groups, {kind = "table"})
  if #groups == 0 then check.fail("INVALID", "%s: groups is an empty list, expected {params =, lr =}", what) end
  rawset(self, "groups", {})
  for i, given in ipairs(groups) do
    self.groups[i] = settings.read_group(self, what, kind, given)
    add_params(self[STATE], what, given.params, i)
  end
  self[STATE].groups = self.groups
end

local function construct(name, options)
  local what, kind = "optim." .. name, kinds[name]
  check.value(what, "the options", options, {kind = "table"})
  local state = {kind = kind, name = name, what = what, params = {}, group_of = {},
                 seen = {}, frozen = {}, groups = {{}}}
  local self = setmetatable({[STATE] = state}, Optimizer)
  settings.read(self, what, kind, options)
  settings.check_together(self, {}, what)
  if options.groups then
    if options.params then check.fail("INVALID", "%s: give params or groups, not both", what) end
    read_groups(self, what, kind, options.groups)
  elseif options.params then
    add_params(state, what, options.params, 1)
  end
  if next(state.seen) then open(self) end
  return self
end

---@class neap.optim.SGDOptions
---@field momentum? number (default 0)
---@field dampening? number of the momentum (default 0)
---@field nesterov? boolean (default false)
---@field lr number learning rate
---@field weight_decay? number adds decay times the parameter to the gradient (default 0)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- Stochastic gradient descent, `p = p - lr d` with `v = momentum v + (1 - dampening) g` and d = v, or g + momentum v
--- with Nesterov's momentum (Sutskever et al. 2013).
---@param options neap.optim.SGDOptions
---@return neap.Optimizer
function M.sgd(options) return construct("sgd", options) end

---@class neap.optim.AdamOptions
---@field betas? number[] of the averages of gradient and square (default {0.9, 0.999})
---@field eps? number added to the root (default 1e-8)
---@field amsgrad? boolean divide by the greatest average so far (Reddi et al. 2018) (default false)
---@field decoupled_weight_decay? boolean decay parameters and not gradients, as AdamW (default false)
---@field lr? number learning rate (default 1e-3)
---@field weight_decay? number adds decay times the parameter to the gradient (default 0)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- Adam (Kingma and Ba 2014).
---@param options neap.optim.AdamOptions
---@return neap.Optimizer
function M.adam(options) return construct("adam", options) end

---@class neap.optim.AdamWOptions
---@field betas? number[] of the averages of gradient and square (default {0.9, 0.999})
---@field eps? number added to the root (default 1e-8)
---@field amsgrad? boolean divide by the greatest average so far (Reddi et al. 2018) (default false)
---@field lr? number learning rate (default 1e-3)
---@field weight_decay? number of parameters, times lr (default 1e-2)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- Adam with decoupled weight decay (Loshchilov and Hutter 2019).
---@param options neap.optim.AdamWOptions
---@return neap.Optimizer
function M.adamw(options) return construct("adamw", options) end

---@class neap.optim.NAdamOptions
---@field betas? number[] of the averages of gradient and square (default {0.9, 0.999})
---@field eps? number added to the root (default 1e-8)
---@field momentum_decay? number (default 4e-3)
---@field decoupled_weight_decay? boolean decay parameters and not gradients, as AdamW (default false)
---@field lr? number learning rate (default 2e-3)
---@field weight_decay? number adds decay times the parameter to the gradient (default 0)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- Adam with Nesterov's momentum (Dozat 2016).
---@param options neap.optim.NAdamOptions
---@return neap.Optimizer
function M.nadam(options) return construct("nadam", options) end

---@class neap.optim.RAdamOptions
---@field betas? number[] of the averages of gradient and square (default {0.9, 0.999})
---@field eps? number added to the root (default 1e-8)
---@field decoupled_weight_decay? boolean decay parameters and not gradients, as AdamW (default false)
---@field lr? number learning rate (default 1e-3)
---@field weight_decay? number adds decay times the parameter to the gradient (default 0)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- Rectified Adam: the step waits for the variance to settle (Liu et al. 2020).
---@param options neap.optim.RAdamOptions
---@return neap.Optimizer
function M.radam(options) return construct("radam", options) end

---@class neap.optim.AdamaxOptions
---@field betas? number[] of the averages of gradient and square (default {0.9, 0.999})
---@field eps? number added to the root (default 1e-8)
---@field lr? number learning rate (default 2e-3)
---@field weight_decay? number adds decay times the parameter to the gradient (default 0)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- Adam by the greatest gradient (Kingma and Ba 2014).
---@param options neap.optim.AdamaxOptions
---@return neap.Optimizer
function M.adamax(options) return construct("adamax", options) end

---@class neap.optim.AdadeltaOptions
---@field rho? number of the averages (default 0.9)
---@field eps? number (default 1e-6)
---@field lr? number learning rate (default 1)
---@field weight_decay? number adds decay times the parameter to the gradient (default 0)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- Adadelta (Zeiler 2012).
---@param options neap.optim.AdadeltaOptions
---@return neap.Optimizer
function M.adadelta(options) return construct("adadelta", options) end

---@class neap.optim.RMSpropOptions
---@field alpha? number of the average of squares (default 0.99)
---@field eps? number (default 1e-8)
---@field momentum? number (default 0)
---@field centered? boolean divide by the deviation (Graves 2013) (default false)
---@field lr? number learning rate (default 1e-2)
---@field weight_decay? number adds decay times the parameter to the gradient (default 0)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- RMSprop (Tieleman and Hinton 2012).
---@param options neap.optim.RMSpropOptions
---@return neap.Optimizer
function M.rmsprop(options) return construct("rmsprop", options) end

---@class neap.optim.AdagradOptions
---@field lr_decay? number lr / (1 + steps lr_decay) (default 0)
---@field eps? number (default 1e-10)
---@field initial_accumulator_value? number (default 0)
---@field lr? number learning rate (default 1e-2)
---@field weight_decay? number adds decay times the parameter to the gradient (default 0)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- Adagrad (Duchi et al. 2011).
---@param options neap.optim.AdagradOptions
---@return neap.Optimizer
function M.adagrad(options) return construct("adagrad", options) end

---@class neap.optim.LionOptions
---@field betas? number[] of the step and of the average (default {0.9, 0.99})
---@field lr? number learning rate (default 1e-4)
---@field weight_decay? number of parameters, times lr (default 0)
---@field maximize? boolean go up the gradient (default false)
---@field params? neap.Tensor[]|neap.Module `model:parameters()`, or the model; a trainer gives its model's
---@field groups? table[] in place of params: a list of `{params =, lr =, ...}` with settings of their own

--- Lion: steps by the sign of an average (Chen et al. 2023).
---@param options neap.optim.LionOptions
---@return neap.Optimizer
function M.lion(options) return construct("lion", options) end

--- Schedules of learning rates: optim.schedule.cosine {total = 1000}
M.schedule = require "neap.schedule"

-- For the standard library -----------------------------------------------------------------------------

--- The tables that hold a setting: groups that have it themselves, in turn, and the optimizer, if its kind has it.
---@param name string
---@return table[]
function Optimizer:places(name)
  local list, state = {}, self[STATE]
  for _, group in ipairs(state.groups) do
    if group[name] ~= nil then list[#list + 1] = group end
  end
  if state.kind.specs[name] then list[#list + 1] = self end
  return list
end

--- Gives parameters to an optimizer that was made without; nothing when it has some.
---@param params neap.Tensor[]|neap.Module
function Optimizer:bind(params)
  local state = self[STATE]
  if state.core then return end
  add_params(state, state.what, params, 1)
  open(self)
end

--- Whether it has parameters.
---@return boolean
function Optimizer:is_bound()
  return self[STATE].core ~= nil
end

--- The engine's optimizer.
---@package
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
  local kind, what = state.kind, state.what
  for name in pairs(kind.specs) do settings.check(what, kind, name, settings.of(self, group, name)) end
  settings.check_together(self, group, what)
  state.core:set(i, settings.for_core(self, group, kind))
  state.sent[i] = settings.sent(self, group, kind)
end

--- Frozen ones have no moments, and would stay as they are without a word.
local function check_frozen(state)
  for _, p in ipairs(state.frozen) do
    if not module.is_frozen(p) then
      check.fail("INVALID", "%s: the parameter %q was frozen when the optimizer was made, and is not now: make an "
                 .. "optimizer after unfreeze(), or one before freeze()", state.what, module.path_of(p))
    end
  end
end

--- Tells the engine of settings that changed. Takes no memory while nothing but lr did.
---@package
function Optimizer:sync()
  local state = self[STATE]
  check_frozen(state)
  for i = 1, #state.groups do
    local group, sent = state.groups[i], state.sent[i]
    local lr = settings.of(self, group, "lr")
    if settings.differ(self, group, sent, state.kind.specs) then
      send(self, i, group)
    elseif lr ~= sent.lr then
      settings.check(state.what, state.kind, "lr", lr)
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

local step_specs = {clip_norm = {kind = "number", above = 0}, clip_value = {kind = "number", above = 0}}

--- Takes one step. Parameters without a gradient stay as they are; the gradients given do not change. `neap.update`
--- does this and all before it as one transaction.
---@param grads table by path, as `nn.value_and_grad` gives them, by parameter, or a list in the order of params
---@param options? {clip_norm: number, clip_value: number} as `neap.update` has them
---@return number # the norm of the gradients before clipping; NaN unless clip_norm was given
function Optimizer:step(grads, options)
  local handle, state = self:handle(), self[STATE]
  check.value(state.what, "the gradients", grads, {kind = "table"})
  local o = check.options(state.what .. ": step", options, step_specs)
  self:sync()
  return handle:apply(gradient_list(state, grads), o.clip_norm, o.clip_value)
end

--- Committed updates so far.
---@return integer
function Optimizer:step_count()
  return self:handle():step_count()
end

for name, method in pairs(state_of.methods) do Optimizer[name] = method end

return M
