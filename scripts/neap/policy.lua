--- Policies: functions from an out-of-memory event to an action, or to nil when they know no answer.
local check = require "neap.check"
local action = require "neap.action"

---@class neap.policy
local M = {}

---@alias neap.Policy fun(oom: neap.OOM): neap.Action? what to do, or nil when it knows no answer

--- The largest n in first..last for which fits(n), where smaller ones fit if larger ones do; nil when none.
local function largest(first, last, fits)
  local found
  while first <= last do
    local middle = (first + last) // 2
    if fits(middle) then
      found, first = middle, middle + 1
    else
      last = middle - 1
    end
  end
  return found
end

local function predict_micro(oom, n)
  return oom:predict(action.micro_batch(n))
end

--- As few passes as with n, but of even size: the same time in less memory.
local function even(batch, n, grain)
  local passes = (batch + n - 1) // n
  local size = (batch + passes - 1) // passes
  return math.min(n, (size + grain - 1) // grain * grain)
end

local function whole_slabs(oom, min)
  local grain, current, batch = oom.plan.grain, oom.plan.micro_batch, oom.plan.batch
  local last = (current - 1) // grain
  local k = largest(math.max(1, (min + grain - 1) // grain), last, function(k)
    local p = predict_micro(oom, k * grain)
    return p.fits and p.exact == "bits"
  end)
  return k and action.micro_batch(even(batch, k * grain, grain))
end

local function below_a_slab(oom, min)
  local n = math.min(oom.plan.micro_batch, oom.plan.grain) // 2
  while n >= min do
    local p = predict_micro(oom, n)
    if p.fits and p.exact then return action.micro_batch(n) end
    n = n // 2
  end
end

---@class neap.policy.MicroBatchOptions
---@field min? integer samples a piece has at least (default 1)
---@field exact? "bits"|"rounding" what the answer may change (default "rounding")

--- Works through the batch in pieces: the largest ones of whole slabs that fit (the same bits), else, unless `exact` is
--- "bits", smaller ones (the same sum in another order). Answers nothing where samples depend on each other, as in
--- batch norm.
---@param options? neap.policy.MicroBatchOptions
---@return neap.Policy
function M.micro_batch(options)
  local o = check.options("policy.micro_batch", options, {
    min = {kind = "integer", min = 1, default = 1}, exact = {kind = "string", default = "rounding"},
  })
  if o.exact ~= "bits" and o.exact ~= "rounding" then
    check.fail("INVALID", "policy.micro_batch: exact is %q, expected \"bits\" or \"rounding\"", o.exact)
  end
  return function(oom)
    return whole_slabs(oom, o.min) or o.exact == "rounding" and below_a_slab(oom, o.min) or nil
  end
end

---@class neap.policy.ShrinkOptions
---@field factor? number between 0 and 1 (default 0.5)
---@field min? integer samples (default 8)

--- Makes the batch smaller by `factor` until it fits, but never below `min`. Training goes another way than before.
---@param options? neap.policy.ShrinkOptions
---@return neap.Policy
function M.shrink_batch(options)
  local o = check.options("policy.shrink_batch", options, {
    factor = {kind = "number", above = 0, below = 1, default = 0.5},
    min = {kind = "integer", min = 1, default = 8},
  })
  return function(oom)
    local n = oom.plan.batch
    while true do
      local smaller = math.max(o.min, math.min(n - 1, n * o.factor // 1 | 0))
      if smaller >= n then return nil end
      n = smaller
      local answer = action.batch(n)
      if oom:predict(answer).fits then return answer end
    end
  end
end

--- Saves a checkpoint and ends training.
---@param options? {path: string} where the trainer saves its own when left out
---@return neap.Policy
function M.checkpoint_and_stop(options)
  local o = check.options("policy.checkpoint_and_stop", options, {path = {kind = "string"}})
  return function()
    return action.checkpoint(o.path) + action.stop
  end
end

local function check_policies(list)
  check.value("policy.chain", "the list of policies", list, {kind = "table"})
  for i, p in ipairs(list) do
    if not check.is_callable(p) then
      check.fail("INVALID", "policy.chain: entry %d is %s, expected a policy", i, check.describe(p))
    end
  end
  if #list == 0 then check.fail("INVALID", "policy.chain: the list is empty, expected policies") end
end

--- Asks policies in order; the first answer counts.
---@param list neap.Policy[]
---@return neap.Policy
function M.chain(list)
  check_policies(list)
  return function(oom)
    for _, p in ipairs(list) do
      local answer = p(oom)
      if answer then return answer end
    end
  end
end

local rank = {bits = 1, rounding = 2}

local function best(oom)
  local answer, found
  for candidate, p in oom:answers() do
    local r = rank[p.exact]
    if p.fits and r and (not found or r < found.rank or r == found.rank and p.slowdown < found.slowdown) then
      answer, found = candidate, {rank = r, slowdown = p.slowdown}
    end
  end
  return answer
end

---@class neap.policy.AutoOptions
---@field shrink_batch? neap.policy.ShrinkOptions|boolean may the batch become smaller, and how (default false)
---@field path? string of the last checkpoint; where the trainer saves its own when left out
---@field stop? boolean end with a checkpoint when nothing else fits (default true)

--- The fastest answer that keeps the bits, else the fastest within rounding, else a smaller batch where that is
--- allowed, else a checkpoint and the end. A trainer's default; an update's is `auto {stop = false}`.
---@param options? neap.policy.AutoOptions
---@return neap.Policy
function M.auto(options)
  local o = check.options("policy.auto", options, {
    shrink_batch = {kind = "any"}, path = {kind = "string"}, stop = {kind = "boolean", default = true},
  })
  local shrink = o.shrink_batch and M.shrink_batch(type(o.shrink_batch) == "table" and o.shrink_batch or nil)
  local last = o.stop and M.checkpoint_and_stop {path = o.path}
  return function(oom)
    return best(oom) or shrink and shrink(oom) or last and last(oom) or nil
  end
end

return M
