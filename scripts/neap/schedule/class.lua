--- What every schedule does: it counts, sets rates, and is saved.
local check = require "neap.check"

local M = {}

--- Sets the learning rates of an optimizer as committed updates are counted. A trainer binds, advances, saves and
--- resumes its own; the methods are for loops of one's own.
---@class neap.Schedule
local Schedule = {__name = "neap.schedule"}
Schedule.__index = Schedule

--- Whether v is a schedule.
---@param v any
---@return boolean
function M.is_schedule(v)
  return type(v) == "table" and getmetatable(v) == Schedule
end

--- rate(self, base, n, i): the learning rate after n updates or samples, of place i, which began as base.
---@return neap.Schedule
function M.make(name, options, specs, rate)
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

--- Raises unless v is a schedule that another can use as a part of itself.
function M.check_part(self, name, v)
  if not M.is_schedule(v) or v.observe_value or v.optimizer or v.cycle_momentum then
    local why = M.is_schedule(v) and v.cycle_momentum and ", and leaves momentum alone" or ""
    check.fail("INVALID", "%s: %s is %s, expected a schedule that only counts%s", self.what, name,
               M.is_schedule(v) and v.what or check.describe(v), why)
  end
  if v.by ~= self.by then
    check.fail("INVALID", "%s: it counts %s and %s counts %s, expected the same", self.what, self.by, name, v.by)
  end
end

-- Use --------------------------------------------------------------------------------------------------

local function apply(self)
  local n = self.progress[self.by]
  for i, place in ipairs(self.optimizer:places "lr") do place.lr = self:rate(self.progress.base[i], n, i) end
  if self.put_more then self:put_more(n) end
end

--- Takes an optimizer, whose rates as they are now are where the schedule begins, and sets the first ones.
---@param optimizer neap.Optimizer
---@return neap.Schedule self
function Schedule:bind(optimizer)
  if not require("neap.optim").is_optimizer(optimizer) then
    check.fail("INVALID", "%s: bind got %s, expected an optimizer", self.what, check.describe(optimizer))
  end
  if self.optimizer then check.fail("INVALID", "%s: it sets the rates of an optimizer already", self.what) end
  if self.check_optimizer then self:check_optimizer(optimizer) end
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

--- The state p with the mean loss of an epoch shown to it.
local function observed(self, p, v)
  if self.observe_value and not self.metric then
    self.observe_value(setmetatable({progress = p}, {__index = self}), v)
  end
  return p
end

--- The state after an update of so many samples, and after `v` was shown at an epoch's end.
---@package
---@param samples integer
---@param v? number
---@return table
function Schedule:state_after(samples, v)
  local p = self:state()
  p.updates, p.samples = p.updates + 1, p.samples + samples
  return v and observed(self, p, v) or p
end

--- The state after `v` was shown at the end of an epoch, which came without an update.
---@package
---@param v number
---@return table
function Schedule:state_at_end(v)
  return observed(self, self:state(), v)
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
---@package
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
---@param saved table as `state()` gives it
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
