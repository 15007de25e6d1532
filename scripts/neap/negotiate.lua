--- What happens when the memory of an update is refused: a policy is asked, with facts, until a plan fits.
local core = require "neap.core"
local check = require "neap.check"
local action = require "neap.action"
local report = require "neap.report"

local M = {}

local ATTEMPTS <const> = 20

--- What an action would lead to. exact is "bits": not a bit of the result changes; "rounding": the same sum in another
--- order; false: another batch, or statistics over fewer samples.
---@class neap.Prediction
---@field fits boolean
---@field exact "bits"|"rounding"|false how much of the result stays
---@field slowdown number time of an update, over that of the whole batch at once
---@field peak integer? bytes in use at most
---@field micro_batch integer? samples at once
---@field batch integer? samples

--- A refusal as a policy sees it: memory was asked for between updates, and nothing has changed yet. `tostring` says it
--- in one line.
---@class neap.OOM
---@field requested integer bytes that were refused
---@field budget integer? bytes, nil when none is set
---@field in_use integer bytes
---@field largest_free integer bytes of the largest block that could be had
---@field phase string "reserve": the memory of an update; "data": a batch on its way in
---@field step integer committed updates
---@field attempt integer counts the questions of this event, from 1
---@field plan {micro_batch: integer, batch: integer, grain: integer} what was refused; grain is the samples of a slab
---@field holders {owner: string, bytes: integer}[] who holds the memory, largest first
local OOM = {__name = "neap.oom"}
OOM.__index = OOM

--- Facts about memory when all that is idle has been given back, and the space there is: `largest` is the
--- largest block that could be had, `fresh` what the device may still be asked for (which may be the same).
local function free_memory()
  core.release()
  local memory = core.memory()
  if not memory.budget then return memory, {largest = math.huge, fresh = math.huge} end
  return memory, {
    largest = math.min(memory.largest_free, memory.budget - memory.in_use),
    fresh = math.max(0, memory.budget - memory.reserved),
  }
end

local function space()
  local _, found = free_memory()
  return found
end

--- Whether the space holds what a plan takes before it runs: its arena, and the loss function's other results.
--- held: bytes of those that are there already.
local function fits(f, found, held)
  local arena, outputs = f.memory.arena, f.memory.outputs - (held or 0)
  if arena + outputs <= found.largest then return true end
  -- Otherwise one in a block that is kept for reuse, the other in a new one.
  local more, less = math.max(arena, outputs), math.min(arena, outputs)
  return found.fresh < found.largest and more <= found.largest and less <= found.fresh
end

--- How an action changes the number of samples worked on at once, and of the batch.
local function effect(act, plan)
  local micro, batch = plan.micro_batch, plan.batch
  for _, item in ipairs(act.items) do
    if item.kind == "micro_batch" then micro = math.min(item.n, batch) end
    if item.kind == "batch" then batch = math.min(item.n, batch) end
  end
  return math.min(micro, batch), batch
end

local function forecast(entry, micro)
  local known = entry.forecasts[micro]
  if known == nil then
    local ok, found = pcall(entry.core.predict, entry.core, M.piece(entry, micro))
    known = ok and found or false
    entry.forecasts[micro] = known
  end
  return known
end

--- Peak and time of `micro` samples at once. A smaller batch is judged by its largest piece: what it needs
--- beside the arena, it needs less of.
local function predicted(entry, micro, batch, available)
  local f, whole = forecast(entry, micro), forecast(entry, entry.batch)
  if not f then return {fits = false, exact = false} end
  local exact = f.exact
  if batch < entry.batch then exact = false end
  local slowdown = 1.0
  if whole and whole.seconds > 0 then slowdown = f.seconds / whole.seconds end
  return {
    peak = f.memory.peak, arena = f.memory.arena, fits = fits(f, available), slowdown = slowdown,
    exact = exact, micro_batch = micro, batch = batch, grain = f.grain,
  }
end

--- While a batch is loaded nothing is known but the block that was refused, which shrinks with the batch.
local function predicted_data(oom, batch)
  local need = oom.requested * batch / oom.plan.batch
  return {
    peak = oom.in_use + (need // 1 | 0), fits = batch < oom.plan.batch and need <= oom.space.largest, slowdown = 1.0,
    exact = false, micro_batch = batch, batch = batch, grain = 1,
  }
end

--- What an action would lead to. Nothing is run.
---@param act neap.Action
---@return neap.Prediction
function OOM:predict(act)
  if not action.is_action(act) then
    check.fail("INVALID", "oom:predict: got %s, expected an action", check.describe(act))
  end
  local micro, batch = effect(act, self.plan)
  if act:find "stop" then return {fits = true, exact = false, slowdown = math.huge, peak = self.in_use} end
  if not self.entry then return predicted_data(self, batch) end
  return predicted(self.entry, micro, batch, self.space)
end

--- Sizes worth asking for, largest first: halves in whole slabs, then halves below one.
local function sizes(plan)
  local list, n = {}, plan.micro_batch
  while n > plan.grain do
    n = math.max(plan.grain, (n // 2 + plan.grain - 1) // plan.grain * plan.grain)
    list[#list + 1] = n
    if n == plan.grain then break end
  end
  n = math.min(n, plan.grain)
  while n > 1 do
    n = n // 2
    list[#list + 1] = n
  end
  return list
end

--- Iterates over answers worth a thought, with their predictions: halves of the batch in whole slabs, then below one.
---@return fun(): neap.Action?, neap.Prediction?
function OOM:answers()
  local list, i = sizes(self.plan), 0
  return function()
    i = i + 1
    if not list[i] then return nil end
    local act = action.micro_batch(list[i])
    return act, self:predict(act)
  end
end

--- "the update needs 214.3 MiB for a batch of 512; ..." in one line.
function OOM:__tostring()
  local plan, pieces = self.plan, ""
  if plan.micro_batch < plan.batch then pieces = (" in micro-batches of %d"):format(plan.micro_batch) end
  local held = {}
  for i = 1, math.min(3, #self.holders) do
    held[i] = ("%s %s"):format(self.holders[i].owner, report.bytes(self.holders[i].bytes))
  end
  local subject = self.entry and "a batch of %d" or "loading a batch of %d"
  local apart = "" -- what is free would do, but for lying in pieces
  if self.budget and self.in_use + self.requested <= self.budget then
    apart = (", of which at most %s are free in one piece"):format(report.bytes(self.largest_free))
  end
  return (subject .. "%s needs %s more; %s are in use%s; the budget is %s%s"):format(plan.batch, pieces,
    report.bytes(self.requested), report.bytes(self.in_use),
    #held > 0 and " (" .. table.concat(held, ", ") .. ")" or "",
    self.budget and report.bytes(self.budget) or "what the device has", apart)
end

local function new_oom(update, problem, attempt, fields)
  collectgarbage()
  local memory, found = free_memory()
  fields.requested, fields.budget, fields.in_use = problem.bytes or 0, memory.budget, memory.in_use
  fields.largest_free, fields.holders = memory.largest_free, core.memory_holders()
  fields.step, fields.attempt = update.optimizer:step_count(), attempt
  -- Without a budget the device refused: all that is known is that it has less than that.
  local below = fields.requested - 1
  fields.space = memory.budget and found or {largest = below, fresh = below}
  return setmetatable(fields, OOM)
end

local function update_oom(update, entry, problem, attempt)
  local plan = {micro_batch = entry.micro or entry.batch, batch = entry.batch, grain = entry.core:forecast().grain}
  return new_oom(update, problem, attempt, {phase = "reserve", plan = plan, entry = entry})
end

--- The error holds facts only, so that keeping it keeps no memory alive.
local function raise(oom, message, fields)
  fields = fields or {}
  fields.bytes, fields.budget, fields.plan = oom.requested, oom.budget, oom.plan
  error(core.error(fields.code or "OOM", ("%s: %s"):format(message, tostring(oom)), fields), 0)
end

--- Samples of a micro-batch of this entry where `micro` is asked for; nil when that is all of its batch.
function M.piece(entry, micro)
  return micro and micro < entry.batch and micro or nil
end

--- Puts a plan in force.
function M.plan(entry, micro)
  entry.core:plan(M.piece(entry, micro))
  entry.micro = M.piece(entry, micro)
end

--- Carries out what an update can do by itself; the rest is for who drives it. While data is loaded (no
--- entry) there is no plan to change.
local function apply(update, entry, act)
  local rest
  for _, item in ipairs(act.items) do
    if item.kind == "micro_batch" then
      if entry then
        M.plan(entry, item.n)
        update.micro = item.n
      end
    elseif item.kind == "release" then
      collectgarbage()
      core.release()
    elseif item.kind ~= "retry" then
      rest = rest or {}
      rest[item.kind] = item
    end
  end
  return rest
end

local function answer_of(update, oom)
  local act = update.policy(oom)
  if act ~= nil and not action.is_action(act) then
    check.fail("INVALID", "the policy answered %s, expected an action or nil", check.describe(act))
  end
  if update.on_oom then update.on_oom(oom, act) end
  if act == nil then raise(oom, "out of memory, and the policy has no answer") end
  return act
end

--- Whom it is asked about makes no update meanwhile: that would ask the policy again, and so on.
local function ask(update, oom)
  update.asked = true
  return check.finally(function() update.asked = nil end, answer_of, update, oom)
end

local function hand_over(oom, act, rest)
  if rest.stop then
    raise(oom, "training was stopped by a policy", {code = "STOPPED", exit_code = 3, action = act})
  end
  local message = "out of memory; the policy answers %s, which is for the loop to do"
  raise(oom, message:format(tostring(act)), {action = act})
end

--- Asks the policy until the plan in force has its memory. Raises when there is no answer, when the answer is
--- for whoever drives the update (error field `action`), and when answers lead nowhere.
---@param update table
---@param entry table
---@param problem table the error object of the refusal
function M.settle(update, entry, problem)
  local last
  for attempt = 1, ATTEMPTS do
    local oom = update_oom(update, entry, problem, attempt)
    local act = ask(update, oom)
    if last == act then
      raise(oom, ("out of memory: the policy answered %s twice to the same refusal"):format(tostring(act)))
    end
    last = act
    local rest = apply(update, entry, act)
    if rest then hand_over(oom, act, rest) end
    local ok
    ok, problem = entry.core:reserve()
    if ok then return end
    if problem.code ~= "OOM" then error(problem, 0) end
  end
  local message = "out of memory after %d answers of the policy"
  raise(update_oom(update, entry, problem, ATTEMPTS), message:format(ATTEMPTS))
end

--- Asks the policy what to do when a batch could not be loaded. Returns when the same may be tried again;
--- raises otherwise, as settle does.
---@param update table
---@param batch integer samples
---@param problem table the error object of the refusal
---@param attempt integer
function M.settle_data(update, batch, problem, attempt)
  local plan = {micro_batch = batch, batch = batch, grain = 1}
  local oom = new_oom(update, problem, attempt, {phase = "data", plan = plan})
  if attempt > ATTEMPTS then raise(oom, ("out of memory after %d answers of the policy"):format(ATTEMPTS)) end
  local act = ask(update, oom)
  local rest = apply(update, nil, act)
  if rest then hand_over(oom, act, rest) end
end

--- What a plan would need, beside what it could have now: {memory, exact, seconds, micro, grain, fits}.
---@param entry table
---@param micro integer?
---@return table
function M.predict(entry, micro)
  local f = entry.core:predict(M.piece(entry, micro))
  f.fits = fits(f, space(), entry.core:held())
  return f
end

--- The largest piece of whole slabs that would fit now, or nil.
---@param entry table
---@return integer? samples, table? forecast
function M.largest_fit(entry)
  local available, held = space(), entry.core:held()
  local whole = forecast(entry, entry.batch)
  if not whole then return nil end
  if fits(whole, available, held) then return entry.batch, whole end
  for _, n in ipairs(sizes {micro_batch = entry.batch, grain = whole.grain}) do
    local f = forecast(entry, n)
    if f and f.exact and fits(f, available, held) then return n, f end
  end
end

return M
