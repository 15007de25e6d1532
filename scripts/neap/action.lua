--- Answers to an out-of-memory event. They combine with +:
---   action.micro_batch(64) + action.checkpoint "safe.h5"
local check = require "neap.check"

---@class neap.action
local M = {}

--- What to do about a refusal: one thing, or several joined with `+`, in that order. Equal actions compare equal, and
--- `tostring` shows what they do.
---@class neap.Action
---@field items table[] what to do, in order: `{kind =, ...}`
---@operator add(neap.Action): neap.Action
local Action = {__name = "neap.action"}
Action.__index = Action

local function single(item)
  return setmetatable({items = {item}}, Action)
end

--- Whether v is an action.
---@param v any
---@return boolean
function M.is_action(v)
  return type(v) == "table" and getmetatable(v) == Action
end

function Action.__add(a, b)
  if not M.is_action(a) or not M.is_action(b) then
    check.fail("INVALID", "action: + joins two actions, got %s and %s", check.describe(a), check.describe(b))
  end
  local items = table.move(a.items, 1, #a.items, 1, {})
  return setmetatable({items = table.move(b.items, 1, #b.items, #items + 1, items)}, Action)
end

local function item_text(item)
  local argument = item.n or item.path and ("%q"):format(item.path)
  return argument and ("%s(%s)"):format(item.kind, argument) or item.kind
end

--- "micro_batch(64) + checkpoint("safe.h5")"; equal actions give equal text.
function Action:__tostring()
  local parts = {}
  for i, item in ipairs(self.items) do parts[i] = item_text(item) end
  return table.concat(parts, " + ")
end

function Action:__eq(other)
  return M.is_action(other) and tostring(self) == tostring(other)
end

--- The first thing of this kind, or nil.
---@param kind string "micro_batch", "batch", "checkpoint", "stop", "retry" or "release"
---@return table?
function Action:find(kind)
  for _, item in ipairs(self.items) do
    if item.kind == kind then return item end
  end
end

local function samples(what, n)
  return check.value(what, "the number of samples", n, {kind = "integer", min = 1})
end

--- Try the same again. Twice the same answer to one refusal ends the attempt.
M.retry = single {kind = "retry"}
--- Collect garbage and give unused memory back, then try again.
M.release = single {kind = "release"}
--- End training now: the trainer raises an error of code `STOPPED`, with which the executable ends in exit code 3.
M.stop = single {kind = "stop"}

--- Work through the batch in pieces of n samples; whole slabs (multiples of the plan's `grain`) keep the bits.
---@param n integer samples
---@return neap.Action
function M.micro_batch(n)
  return single {kind = "micro_batch", n = samples("action.micro_batch", n)}
end

--- Go on with batches of n samples: another trajectory than before, in which no sample of the epoch is lost or
--- repeated. For a trainer to do; an update alone raises.
---@param n integer samples
---@return neap.Action
function M.batch(n)
  return single {kind = "batch", n = samples("action.batch", n)}
end

--- Save a checkpoint. For a trainer to do.
---@param path? string where the trainer saves its own when left out, else "neap-checkpoint.h5"
---@return neap.Action
function M.checkpoint(path)
  if path ~= nil then check.value("action.checkpoint", "the path", path, {kind = "string"}) end
  return single {kind = "checkpoint", path = path}
end

return M
