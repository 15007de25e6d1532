--- Schedules of learning rates, with PyTorch's formulas. Progress is counted in committed updates, or, with
--- by = "samples", in the samples of those: then a batch that had to shrink changes nothing.
---
---   neap.trainer {schedule = optim.schedule.warmup {total = 500, next = optim.schedule.cosine {total = 9500}}, ...}
---
--- In a loop of one's own:
---
---   local schedule = optim.schedule.step {every = 1000}:bind(optimizer)
---   update(x, y)
---   schedule:advance(x.shape[1])
local check = require "neap.check"
local class = require "neap.schedule.class"

---@class neap.optim.schedule
local M = {is_schedule = class.is_schedule}

local make = class.make

local count = {kind = "integer", min = 1, required = true}
local share = {kind = "number", min = 0, max = 1}
local function part(default) return {kind = "number", min = 0, max = 1, default = default} end
local function rate_of(default) return {kind = "number", min = 0, default = default} end

-- Factors ----------------------------------------------------------------------------------------------

---@class neap.schedule.StepOptions
---@field every integer updates, or samples
---@field gamma? number (default 0.1)
---@field by? "updates"|"samples" what is counted (default "updates")

--- The rate times gamma at every `every`.
---@param options neap.schedule.StepOptions
---@return neap.Schedule
function M.step(options)
  return make("step", options, {every = count, gamma = rate_of(0.1)}, function(self, base, n)
    return base * self.gamma ^ (n // self.every)
  end)
end

--- A list of counts, each above the one before.
local function check_milestones(self, least)
  if #self.milestones < least then
    check.fail("INVALID", "%s: milestones is an empty list, expected counts", self.what)
  end
  for i, v in ipairs(self.milestones) do
    local min = i == 1 and 1 or self.milestones[i - 1] + 1
    check.value(self.what, ("milestones[%d]"):format(i), v, {kind = "integer", min = min})
  end
end

--- Milestones that n has reached.
local function reached(self, n)
  local k = 0
  while self.milestones[k + 1] and n >= self.milestones[k + 1] do k = k + 1 end
  return k
end

---@class neap.schedule.MultiStepOptions
---@field milestones integer[] counts, each above the one before
---@field gamma? number (default 0.1)
---@field by? "updates"|"samples" what is counted (default "updates")

--- The rate times gamma at each milestone.
---@param options neap.schedule.MultiStepOptions
---@return neap.Schedule
function M.multi_step(options)
  local self = make("multi_step", options, {
    milestones = {kind = "table", required = true}, gamma = rate_of(0.1),
  }, function(self, base, n) return base * self.gamma ^ reached(self, n) end)
  check_milestones(self, 1)
  return self
end

---@class neap.schedule.ExponentialOptions
---@field gamma number
---@field every? integer (default 1)
---@field by? "updates"|"samples" what is counted (default "updates")

--- The rate times `gamma ^ (n / every)`.
---@param options neap.schedule.ExponentialOptions
---@return neap.Schedule
function M.exponential(options)
  return make("exponential", options, {
    gamma = {kind = "number", min = 0, required = true}, every = {kind = "integer", min = 1, default = 1},
  }, function(self, base, n) return base * self.gamma ^ (n / self.every) end)
end

---@class neap.schedule.ConstantOptions
---@field total integer updates, or samples
---@field factor? number (default 1/3)
---@field by? "updates"|"samples" what is counted (default "updates")

--- `factor` times the rate until `total`, then all of it.
---@param options neap.schedule.ConstantOptions
---@return neap.Schedule
function M.constant(options)
  return make("constant", options, {total = count, factor = part(1 / 3)}, function(self, base, n)
    return n < self.total and base * self.factor or base
  end)
end

---@class neap.schedule.LinearOptions
---@field total integer updates, or samples
---@field start_factor? number (default 1/3)
---@field end_factor? number (default 1)
---@field by? "updates"|"samples" what is counted (default "updates")

--- From start_factor to end_factor times the rate over `total`.
---@param options neap.schedule.LinearOptions
---@return neap.Schedule
function M.linear(options)
  return make("linear", options, {
    total = count, start_factor = part(1 / 3), end_factor = part(1),
  }, function(self, base, n)
    return base * (self.start_factor + (self.end_factor - self.start_factor) * math.min(1, n / self.total))
  end)
end

---@class neap.schedule.PolynomialOptions
---@field total integer updates, or samples
---@field power? number (default 1)
---@field by? "updates"|"samples" what is counted (default "updates")

--- Down to 0 over `total`, as a power of what is left of it.
---@param options neap.schedule.PolynomialOptions
---@return neap.Schedule
function M.polynomial(options)
  return make("polynomial", options, {total = count, power = rate_of(1)}, function(self, base, n)
    return base * (1 - math.min(1, n / self.total)) ^ self.power
  end)
end

---@class neap.schedule.LambdaOptions
---@field fn fun(n: integer, i: integer): number of the count, from 0, and of the place of the group
---@field by? "updates"|"samples" what is counted (default "updates")

--- The rate times what a function says. Groups that have a rate of their own are counted from 1, and then the
--- optimizer. The function itself is not saved.
---@param options neap.schedule.LambdaOptions
---@return neap.Schedule
function M.lambda(options)
  return make("lambda", options, {fn = {kind = "callable", required = true}}, function(self, base, n, i)
    local factor = self.fn(n, i)
    check.value(self.what, ("what fn(%d) returned"):format(n), factor, {kind = "number", min = 0})
    return base * factor
  end)
end

-- Cosines ----------------------------------------------------------------------------------------------

---@class neap.schedule.CosineOptions
---@field total integer updates, or samples
---@field min? number (default 0)
---@field by? "updates"|"samples" what is counted (default "updates")

--- Down to `min` along half a cosine over `total`, and stays there.
---@param options neap.schedule.CosineOptions
---@return neap.Schedule
function M.cosine(options)
  return make("cosine", options, {total = count, min = rate_of(0)}, function(self, base, n)
    local t = math.min(1, n / self.total)
    return self.min + (base - self.min) * (1 + math.cos(math.pi * t)) / 2
  end)
end

---@class neap.schedule.CosineRestartsOptions
---@field total integer updates, or samples
---@field mult? integer what total grows by each time (default 1)
---@field min? number (default 0)
---@field by? "updates"|"samples" what is counted (default "updates")

--- Half a cosine from the top again after each `total` (Loshchilov and Hutter 2017).
---@param options neap.schedule.CosineRestartsOptions
---@return neap.Schedule
function M.cosine_restarts(options)
  return make("cosine_restarts", options, {
    total = count, mult = {kind = "integer", min = 1, default = 1}, min = rate_of(0),
  }, function(self, base, n)
    local total = self.total
    if self.mult == 1 then n = n % total end
    while n >= total do n, total = n - total, total * self.mult end
    return self.min + (base - self.min) * (1 + math.cos(math.pi * n / total)) / 2
  end)
end

local anneals = {
  cos = function(from, to, t) return to + (from - to) * (1 + math.cos(math.pi * t)) / 2 end,
  linear = function(from, to, t) return from + (to - from) * t end,
}

--- Phases of a cycle as PyTorch has them: {where it ends, rate there, momentum there}.
local function phases(self)
  local first, peak = self.max_lr / self.div_factor, self.pct_start * self.total - 1
  local low, high = self.base_momentum, self.max_momentum
  local up, down = {peak, self.max_lr, low}, {self.total - 1, first / self.final_div_factor, high}
  if self.three_phase then return {{0, first, high}, up, {2 * peak, first, high}, down} end
  return {{0, first, high}, up, down}
end

--- Entry k (2: rate, 3: momentum) of the phases, between whose ends n is.
local function in_cycle(self, k, n)
  local list = self.phases
  n = math.min(n, self.total - 1)
  for i = 2, #list do
    local from, to = list[i - 1], list[i]
    if n <= to[1] or i == #list then
      local t = to[1] > from[1] and (n - from[1]) / (to[1] - from[1]) or 1
      return anneals[self.anneal_strategy](from[k], to[k], t)
    end
  end
end

--- What of the optimizer's settings is momentum, or nil: of one made without there is none to cycle.
local function momentum_of(optimizer)
  if optimizer:places("betas")[1] then return "betas" end
  for _, place in ipairs(optimizer:places "momentum") do
    if place.momentum ~= 0 then return "momentum" end
  end
end

local function check_cycle(self, optimizer)
  self.cycled = self.cycle_momentum ~= false and momentum_of(optimizer) or nil
  if self.cycle_momentum and not self.cycled then
    check.fail("INVALID", "%s: cycle_momentum is true, but the optimizer has no momentum and no betas", self.what)
  end
end

local function put_momentum(self, n)
  if not self.cycled then return end
  local v = in_cycle(self, 3, n)
  for _, place in ipairs(self.optimizer:places(self.cycled)) do
    if self.cycled == "betas" then place.betas[1] = v else place.momentum = v end
  end
end

---@class neap.schedule.OneCycleOptions
---@field max_lr number
---@field total integer updates, or samples
---@field pct_start? number share of the way up (default 0.3)
---@field div_factor? number max_lr over the first rate (default 25)
---@field final_div_factor? number first rate over the last (default 1e4)
---@field anneal_strategy? "cos"|"linear" (default "cos")
---@field three_phase? boolean down in two parts, the first as long as the way up (default false)
---@field cycle_momentum? boolean (default whether the optimizer has any)
---@field base_momentum? number (default 0.85)
---@field max_momentum? number (default 0.95)
---@field by? "updates"|"samples" what is counted (default "updates")

--- Up to `max_lr` and down to almost nothing (Smith and Topin 2017), while momentum, or the first of betas, goes down
--- and up.
---@param options neap.schedule.OneCycleOptions
---@return neap.Schedule
function M.one_cycle(options)
  local above, below_one = {kind = "number", above = 0, required = true}, {kind = "number", min = 0, below = 1}
  local self = make("one_cycle", options, {
    max_lr = above, total = count, pct_start = part(0.3), three_phase = {kind = "boolean", default = false},
    div_factor = {kind = "number", above = 0, default = 25},
    final_div_factor = {kind = "number", above = 0, default = 1e4},
    anneal_strategy = {kind = "string", default = "cos"}, cycle_momentum = {kind = "boolean"},
    base_momentum = below_one, max_momentum = below_one,
  }, function(self, _, n) return in_cycle(self, 2, n) end)
  if not anneals[self.anneal_strategy] then
    check.fail("INVALID", "%s: anneal_strategy is %q, expected \"cos\" or \"linear\"", self.what, self.anneal_strategy)
  end
  self.base_momentum, self.max_momentum = self.base_momentum or 0.85, self.max_momentum or 0.95
  self.phases, self.check_optimizer, self.put_more = phases(self), check_cycle, put_momentum
  return self
end

-- Of others --------------------------------------------------------------------------------------------

---@class neap.schedule.WarmupOptions
---@field total integer updates, or samples
---@field start? number (default 0)
---@field next? neap.Schedule begins to count there; the rate stays when left out
---@field by? "updates"|"samples" what is counted (default "updates")

--- From `start` times the rate up to all of it over `total`, then `next`.
---@param options neap.schedule.WarmupOptions
---@return neap.Schedule
function M.warmup(options)
  local self = make("warmup", options, {total = count, start = part(0), next = {kind = "any"}},
                    function(self, base, n, i)
    if n < self.total then return base * (self.start + (1 - self.start) * n / self.total) end
    return self.next and self.next:rate(base, n - self.total, i) or base
  end)
  if self.next ~= nil then class.check_part(self, "next", self.next) end
  return self
end

local function check_parts(self)
  if #self.schedules == 0 then
    check.fail("INVALID", "%s: schedules is an empty list, expected schedules", self.what)
  end
  for i, v in ipairs(self.schedules) do class.check_part(self, ("schedules[%d]"):format(i), v) end
end

---@class neap.schedule.SequentialOptions
---@field schedules neap.Schedule[]
---@field milestones integer[] where the second begins, the third, ...
---@field by? "updates"|"samples" what is counted (default "updates")

--- Schedules one after the other, each from 0 on and from the rates of the beginning.
---@param options neap.schedule.SequentialOptions
---@return neap.Schedule
function M.sequential(options)
  local self = make("sequential", options, {
    schedules = {kind = "table", required = true}, milestones = {kind = "table", required = true},
  }, function(self, base, n, i)
    local k = reached(self, n)
    return self.schedules[k + 1]:rate(base, n - (self.milestones[k] or 0), i)
  end)
  check_parts(self)
  check_milestones(self, 0)
  if #self.milestones ~= #self.schedules - 1 then
    check.fail("INVALID", "%s: %d milestones for %d schedules, expected one fewer than schedules", self.what,
               #self.milestones, #self.schedules)
  end
  return self
end

---@class neap.schedule.ChainedOptions
---@field schedules neap.Schedule[]
---@field by? "updates"|"samples" what is counted (default "updates")

--- Schedules all at once, each from the rate that the one before it gives.
---@param options neap.schedule.ChainedOptions
---@return neap.Schedule
function M.chained(options)
  local self = make("chained", options, {schedules = {kind = "table", required = true}}, function(self, base, n, i)
    for _, s in ipairs(self.schedules) do base = s:rate(base, n, i) end
    return base
  end)
  check_parts(self)
  return self
end

-- Values -----------------------------------------------------------------------------------------------

local function is_better(self, v, best)
  if best == nil then return true end
  if self.mode == "min" then return v < best * (1 - self.threshold) end
  return v > best * (1 + self.threshold)
end

local function observe(self, v)
  local p = self.progress
  if is_better(self, v, p.best) then
    p.best, p.bad = v, 0
  else
    p.bad = p.bad + 1
  end
  if p.cooling > 0 then p.cooling, p.bad = p.cooling - 1, 0 end
  if p.bad > self.patience then
    p.factor, p.cooling, p.bad = p.factor * self.factor, self.cooldown, 0
  end
end

---@class neap.schedule.PlateauOptions
---@field factor? number (default 0.1)
---@field patience? integer (default 10)
---@field threshold? number relative: what counts as better (default 1e-4)
---@field cooldown? integer values that are passed by after a change (default 0)
---@field min? number rate (default 0)
---@field mode? "min"|"max" which is better (default "min")
---@field metric? string name of an evaluation's result, as "accuracy"
---@field by? "updates"|"samples" what is counted (default "updates")

--- The rate times `factor` when a value has not become better `patience` times in a row. A trainer shows it the mean
--- loss of each epoch, or with `metric` that result of each evaluation; elsewhere `schedule:observe` does.
---@param options neap.schedule.PlateauOptions
---@return neap.Schedule
function M.plateau(options)
  local self = make("plateau", options, {
    factor = part(0.1), patience = {kind = "integer", min = 0, default = 10}, threshold = share,
    cooldown = {kind = "integer", min = 0, default = 0}, min = rate_of(0), mode = {kind = "string", default = "min"},
    metric = {kind = "string"},
  }, function(self, base)
    return math.max(self.min, base * self.progress.factor)
  end)
  if self.mode ~= "min" and self.mode ~= "max" then
    check.fail("INVALID", "%s: mode is %q, expected \"min\" or \"max\"", self.what, self.mode)
  end
  self.threshold = self.threshold or 1e-4
  self.observe_value = observe
  self.progress.factor, self.progress.bad, self.progress.cooling = 1, 0, 0
  return self
end

return M
