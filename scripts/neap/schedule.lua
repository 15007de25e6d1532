--- Schedules of learning rates, with PyTorch's formulas. Progress is counted in committed updates, or in the samples
--- of those: then a batch that had to shrink changes nothing.
---
---   neap.trainer {schedule = optim.schedule.warmup {total = 500, next = optim.schedule.cosine {total = 9500}}, ...}
---
--- In a loop of one's own:
---
---   local schedule = optim.schedule.step {every = 1000}:bind(optimizer)
---   update(x, y)
---   schedule:advance(x.shape[1])
local check = require "neap.check"

---@class neap.schedule
local M = {}

---@class neap.Schedule
local Schedule = {__name = "neap.schedule"}
Schedule.__index = Schedule

---@param v any
---@return boolean
function M.is_schedule(v)
  return type(v) == "table" and getmetatable(v) == Schedule
end

--- rate(self, base, n): the learning rate after n updates or samples, of one that began as base.
local function make(name, options, specs, rate)
  local what = "optim.schedule." .. name
  specs.by = {kind = "string", default = "updates"}
  local o = check.options(what, options, specs)
  if o.by ~= "updates" and o.by ~= "samples" then
    check.fail("INVALID", "%s: by is %q, expected \"updates\" or \"samples\"", what, o.by)
  end
  o.what, o.name, o.rate = what, name, rate
  o.progress = {updates = 0, samples = 0}
  return setmetatable(o, Schedule)
end

local count = {kind = "integer", min = 1, required = true}
local share = {kind = "number", min = 0, max = 1}
local function part(default) return {kind = "number", min = 0, max = 1, default = default} end
local function rate_of(default) return {kind = "number", min = 0, default = default} end

-- Kinds ------------------------------------------------------------------------------------------------

--- Times gamma at every `every`: {every=, gamma = 0.1, by = "updates"}
---@return neap.Schedule
function M.step(options)
  return make("step", options, {every = count, gamma = rate_of(0.1)}, function(self, base, n)
    return base * self.gamma ^ (n // self.every)
  end)
end

--- Down to `min` along half a cosine over `total`, and stays there: {total=, min = 0, by=}
---@return neap.Schedule
function M.cosine(options)
  return make("cosine", options, {total = count, min = rate_of(0)}, function(self, base, n)
    local t = math.min(1, n / self.total)
    return self.min + (base - self.min) * (1 + math.cos(math.pi * t)) / 2
  end)
end

--- From `start` times the rate up to all of it over `total`, then `next`, which begins to count there:
--- {total=, start = 0, next=, by=}
---@return neap.Schedule
function M.warmup(options)
  local self = make("warmup", options, {total = count, start = part(0), next = {kind = "any"}}, function(self, base, n)
    if n < self.total then return base * (self.start + (1 - self.start) * n / self.total) end
    return self.next and self.next:rate(base, n - self.total) or base
  end)
  if self.next and (not M.is_schedule(self.next) or self.next.observe_value) then
    check.fail("INVALID", "%s: next is %s, expected a schedule that only counts", self.what, check.describe(self.next))
  end
  if self.next and self.next.by ~= self.by then
    check.fail("INVALID", "%s: it counts %s and its next counts %s, expected the same", self.what, self.by,
               self.next.by)
  end
  return self
end

local function anneal(from, to, t)
  return to + (from - to) * (1 + math.cos(math.pi * t)) / 2
end

--- Up to `max_lr` and down to almost nothing (Smith and Topin 2017), momentum untouched: {max_lr=, total=,
--- pct_start = 0.3, div_factor = 25, final_div_factor = 1e4, by=}
---@return neap.Schedule
function M.one_cycle(options)
  local above = {kind = "number", above = 0, required = true}
  return make("one_cycle", options, {
    max_lr = above, total = count, pct_start = part(0.3),
    div_factor = {kind = "number", above = 0, default = 25},
    final_div_factor = {kind = "number", above = 0, default = 1e4},
  }, function(self, _, n)
    local first = self.max_lr / self.div_factor
    local last, peak = self.total - 1, self.pct_start * self.total - 1
    n = math.min(n, last)
    if peak > 0 and n <= peak then return anneal(first, self.max_lr, n / peak) end
    return anneal(self.max_lr, first / self.final_div_factor, last > peak and (n - peak) / (last - peak) or 1)
  end)
end

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

--- Times `factor` when a value has not become better `patience` times in a row: {factor = 0.1, patience = 10,
--- threshold = 1e-4 (relative), cooldown = 0, min = 0, mode = "min", metric=}. A trainer shows it the mean loss of each
--- epoch, or with `metric` that result of each evaluation.
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

-- Use --------------------------------------------------------------------------------------------------

local function apply(self)
  local n = self.progress[self.by]
  for i, place in ipairs(self.optimizer:places "lr") do place.lr = self:rate(self.progress.base[i], n) end
end

--- Takes an optimizer, whose rates as they are now are where the schedule begins, and sets the first ones.
---@param optimizer neap.Optimizer
---@return neap.Schedule self
function Schedule:bind(optimizer)
  if not require("neap.optim").is_optimizer(optimizer) then
    check.fail("INVALID", "%s: bind got %s, expected an optimizer", self.what, check.describe(optimizer))
  end
  if self.optimizer then check.fail("INVALID", "%s: it sets the rates of an optimizer already", self.what) end
  self.optimizer, self.progress.base = optimizer, {}
  for i, place in ipairs(optimizer:places "lr") do self.progress.base[i] = place.lr end
  apply(self)
  return self
end

local function need_optimizer(self)
  if not self.optimizer then check.fail("INVALID", "%s: it has no optimizer; call bind(optimizer)", self.what) end
end

--- After a committed update: sets the rates of the next.
---@param samples? integer of the update
function Schedule:advance(samples)
  need_optimizer(self)
  if samples == nil and self.by == "samples" then
    check.fail("INVALID", "%s: advance needs the number of samples of the update", self.what)
  end
  local p = self.progress
  p.updates, p.samples = p.updates + 1, p.samples + (samples or 0)
  apply(self)
end

--- Shows a plateau's schedule a value; others pass it by.
---@param v number
function Schedule:observe(v)
  need_optimizer(self)
  check.value(self.what, "the value", v, {kind = "number"})
  if not self.observe_value then return end
  self:observe_value(v)
  apply(self)
end

--- The state after an update of so many samples, and after `v` was shown at an epoch's end.
---@param samples integer
---@param v? number
---@return table
function Schedule:state_after(samples, v)
  local after = setmetatable({progress = self:state()}, {__index = self})
  local p = after.progress
  p.updates, p.samples = p.updates + 1, p.samples + samples
  if v and self.observe_value and not self.metric then self.observe_value(after, v) end
  return p
end

--- The rates in force, of groups with rates of their own in turn and then the optimizer's.
---@return number[]
function Schedule:rates()
  need_optimizer(self)
  local list = {}
  for i, place in ipairs(self.optimizer:places "lr") do list[i] = place.lr end
  return list
end

--- Where it is, as a plain table.
---@return table
function Schedule:state()
  local copy = {name = self.name}
  for key, v in pairs(self.progress) do copy[key] = type(v) == "table" and {table.unpack(v)} or v end
  return copy
end

--- Raises unless a state is one of such a schedule.
---@param saved table
function Schedule:check_state(saved)
  need_optimizer(self)
  check.value(self.what, "the state", saved, {kind = "table"})
  if saved.name ~= self.name then
    check.fail("INVALID", "%s: the state is of %s", self.what, check.describe(saved.name))
  end
  for _, name in ipairs {"updates", "samples"} do
    check.value(self.what, "the state's " .. name, saved[name], {kind = "integer", min = 0})
  end
  if type(saved.base) ~= "table" or #saved.base ~= #self.progress.base then
    check.fail("INVALID", "%s: the state has rates of other groups", self.what)
  end
end

--- Goes back to a state.
---@param saved table as state() gives it
function Schedule:load_state(saved)
  self:check_state(saved)
  local p = {}
  for key, v in pairs(saved) do
    if key ~= "name" then p[key] = type(v) == "table" and {table.unpack(v)} or v end
  end
  self.progress = p
  apply(self)
end

return M
