--- neap.update: an update of parameters as a transaction, under a budget.
---
---   local update = neap.update {
---     loss = function(x, y) return neap.cross_entropy(model(x), y) end,
---     optimizer = neap.optim.adamw {params = model:parameters(), lr = 1e-3},
---   }
---   local loss = update(x, y)
local core = require "neap.core"
local check = require "neap.check"
local negotiate = require "neap.negotiate"
local optim = require "neap.optim"
local policy = require "neap.policy"
local report = require "neap.report"
local trace = require "neap.trace"

local M = {}

---@class neap.Update
---@operator call: any
local Update = {__name = "neap.update"}
Update.__index = Update

local KEPT <const> = 8 -- signatures

local live = setmetatable({}, {__mode = "k"}) -- for the memory summary

local specs = {
  loss = {kind = "callable", required = true},
  optimizer = {kind = "any", required = true},
  policy = {kind = "callable"},
  grain = {kind = "integer", min = 1},
  clip_norm = {kind = "number", above = 0},
  clip_value = {kind = "number", above = 0},
  batch_dims = {kind = "table"},
  precision = {kind = "string", default = "fp32"},
}

--- An update. Options: loss (a function of the inputs that returns the loss, then other results), optimizer,
--- policy, grain (samples a slab), clip_norm (of all gradients together), clip_value (of each element, after that),
--- batch_dims (which dimension of each input carries the batch: 1 unless said, false for none), precision.
---@param options table
---@return neap.Update
function M.new(options)
  local o = check.options("neap.update", options, specs)
  if not optim.is_optimizer(o.optimizer) then
    check.fail("INVALID", "neap.update: optimizer is %s, expected one of neap.optim", check.describe(o.optimizer))
  end
  if o.precision ~= "fp32" then
    check.fail("UNSUPPORTED", "neap.update: precision is %q; this build computes in \"fp32\"", o.precision)
  end
  o.optimizer:handle()
  -- Whoever writes the loop also saves: without a loop's help there is nothing to save before an end.
  o.policy = o.policy or policy.auto {stop = false}
  o.entries = {}
  local self = setmetatable(o, Update)
  live[self] = true
  return self
end

-- Signatures -------------------------------------------------------------------------------------------

--- Where nothing is run, a shape {8, 3, dtype = "fp32"} stands in for a tensor. Numbers have none.
local function shape_of(v)
  if check.is_tensor(v) then return v.shape end
  return type(v) == "table" and v or {}
end

--- For each input the dimension that carries the batch, or false.
local function batch_dims(self, ...)
  local dims, given = {}, self.batch_dims
  for i = 1, select("#", ...) do
    local d = #shape_of((select(i, ...))) > 0 and 1
    if given and given[i] ~= nil then d = given[i] end
    dims[i] = d
  end
  return dims
end

local function batch_size(dims, ...)
  for i = 1, select("#", ...) do
    local d = dims[i]
    if d then
      return shape_of((select(i, ...)))[d]
    end
  end
  return 1
end

local function new_entry(self, ...)
  local entry = trace.trace(self.loss, "neap.update", ...)
  local dims = batch_dims(self, ...)
  entry.core = core.update(entry.graph, self.optimizer:handle(), {
    batch_dims = dims, grain = self.grain, clip_norm = self.clip_norm, clip_value = self.clip_value,
  })
  entry.batch, entry.forecasts = batch_size(dims, ...), {}
  -- Where one batch had to be cut, the next one will have to be, too.
  local before = self.entries[1]
  negotiate.plan(entry, before and before.micro or self.first_micro)
  return trace.add(self.entries, entry, KEPT)
end

local function entry_of(self, ...)
  return trace.find(self.entries, "core", ...) or new_entry(self, ...)
end

--- The entry for these inputs with a plan that has its memory.
local function ready(self, ...)
  local entry = entry_of(self, ...)
  self.optimizer:sync()
  local ok, problem = entry.core:reserve()
  if not ok then
    if problem.code ~= "OOM" then error(problem, 0) end
    negotiate.settle(self, entry, problem)
  end
  return entry
end

-- Running ----------------------------------------------------------------------------------------------

local function check_same(self, ...)
  local n = select("#", ...)
  if n == 0 then return end
  local same = n == self.inputs.n
  for i = 1, n do same = same and rawequal(self.inputs[i], (select(i, ...))) end
  if not same then
    check.fail("BUSY", "update: an update with other inputs is unfinished; finish it with its own, or drop() it")
  end
end

--- A host may have dropped it, to take memory back at once.
local function still_running(self)
  if self.running and not self.running.core:running() then self.running, self.inputs = nil, nil end
  return self.running
end

local function advance(self, seconds)
  local entry = self.running
  local results = table.pack(pcall(entry.core.step, entry.core, seconds))
  if not results[1] or results[2] then self.running, self.inputs = nil, nil end
  if not results[1] then error(results[2], 0) end
  return table.unpack(results, 2, results.n)
end

--- One update with these inputs: the loss (a number), then the loss function's other results.
function Update:__call(...)
  if self.running and still_running(self) then
    check_same(self, ...)
    return select(2, advance(self, math.huge))
  end
  return ready(self, ...).core(...)
end

--- Works on an update for about budget_ms milliseconds. Inputs may be left out while one is unfinished.
---@param budget_ms number
---@return boolean done, number? loss, ... whether it was committed; then as a call's results
function Update:step(budget_ms, ...)
  check.value("update:step", "the budget in milliseconds", budget_ms, {kind = "number", min = 0})
  if still_running(self) then
    check_same(self, ...)
  else
    if select("#", ...) == 0 then
      check.fail("INVALID", "update:step: no update is unfinished, so inputs are needed")
    end
    local entry = ready(self, ...)
    entry.core:begin(...)
    self.running, self.inputs = entry, table.pack(...)
  end
  return advance(self, budget_ms / 1000)
end

--- Traces, plans and takes the memory for inputs like these, so that the first update has only to run.
function Update:prepare(...)
  if still_running(self) then return end
  if select("#", ...) == 0 then check.fail("INVALID", "update:prepare: inputs are needed, their values are not") end
  ready(self, ...)
end

--- Forgets an unfinished update: everything is as before it began.
function Update:drop()
  if still_running(self) then self.running.core:drop() end
  self.running, self.inputs = nil, nil
end

--- Whether an update is unfinished.
---@return boolean
function Update:is_running()
  return still_running(self) ~= nil
end

--- The norm of all gradients of the last update, before clipping.
---@return number
function Update:grad_norm()
  if not self.entries[1] then check.fail("INVALID", "update:grad_norm(): no update was made yet") end
  return self.entries[1].core:grad_norm()
end

-- Memory -----------------------------------------------------------------------------------------------

local function some_entry(self, what, ...)
  if select("#", ...) > 0 then return entry_of(self, ...) end
  if not self.entries[1] then
    check.fail("INVALID", "%s: no inputs were seen yet; give inputs, or make an update first", what)
  end
  return self.entries[1]
end

--- Bytes of the plan in force, known without running: {parameters, gradients, optimizer, activations,
--- workspace, outputs, arena, peak}. outputs: the loss function's other results.
function Update:memory(...)
  return some_entry(self, "update:memory", ...).core:forecast().memory
end

--- What other plans would need: {memory, exact, seconds, micro, grain, fits}.
---@param options? {micro_batch: integer, inputs: table}
function Update:predict_memory(options)
  local o = check.options("update:predict_memory", options, {
    micro_batch = {kind = "integer", min = 1}, inputs = {kind = "table", default = {}},
  })
  local entry = some_entry(self, "update:predict_memory", table.unpack(o.inputs))
  return negotiate.predict(entry, o.micro_batch)
end

--- The plan in force: {micro_batch, batch, grain, exact}, or nil before the first update.
function Update:plan()
  local entry = self.entries[1]
  if not entry then return nil end
  local f = entry.core:forecast()
  return {micro_batch = entry.micro or entry.batch, batch = entry.batch, grain = f.grain, exact = f.exact}
end

--- Micro-batches of n samples for signatures to come; nil is whole batches.
---@param n integer?
function Update:start_with(n)
  self:drop()
  self.entries, self.first_micro = {}, n
end

local function describe(entry)
  local whole = negotiate.predict(entry)
  local text = ("an update with a batch of %d needs %s"):format(entry.batch, report.bytes(whole.memory.peak))
  local n, f = negotiate.largest_fit(entry)
  if not n then return text .. "; no micro-batch of it fits now" end
  if n == entry.batch then return text .. ", which fits" end
  return ("%s; micro-batches of %d fit with %s"):format(text, n, report.bytes(f.memory.peak))
end

--- A line for each update in use: what it needs, and what of it fits.
---@return string[]
function M.overview()
  local lines = {}
  for update in pairs(live) do
    if update.entries[1] then lines[#lines + 1] = describe(update.entries[1]) end
  end
  table.sort(lines)
  return lines
end

-- Groups -----------------------------------------------------------------------------------------------

---@class neap.Group
---@operator call: any
local Group = {__name = "neap.group"}
Group.__index = Group

--- Updates that begin together: none runs before all have their memory (the larger, not the sum, since they
--- run one after the other). Each commits by itself.
---@param updates neap.Update[]
---@return neap.Group
function M.group(updates)
  check.value("neap.group", "the list of updates", updates, {kind = "table"})
  if #updates == 0 then check.fail("INVALID", "neap.group: the list is empty, expected updates") end
  for i, u in ipairs(updates) do
    if getmetatable(u) ~= Update then
      check.fail("INVALID", "neap.group: entry %d is %s, expected an update", i, check.describe(u))
    end
  end
  return setmetatable({updates = table.move(updates, 1, #updates, 1, {})}, Group)
end

local function check_inputs(self, lists)
  if #lists ~= #self.updates then
    check.fail("INVALID", "neap.group: got %d lists of inputs for %d updates", #lists, #self.updates)
  end
  for i, list in ipairs(lists) do
    check.value("neap.group", ("the inputs of update %d"):format(i), list, {kind = "table"})
    if still_running(self.updates[i]) then
      check.fail("BUSY", "neap.group: update %d is unfinished; finish it or drop() it", i)
    end
  end
end

local function release(entries)
  for _, entry in ipairs(entries) do entry.core:drop() end
end

--- Twice, since room for the results of one may cost the arena of another; the second time only arenas are
--- taken, and each by itself fits.
local function reserve_all(self, lists, entries)
  for _ = 1, 2 do
    for i, u in ipairs(self.updates) do entries[i] = ready(u, table.unpack(lists[i])) end
  end
end

local function reserve(self, lists)
  local entries = {}
  check_inputs(self, lists)
  local ok, problem = pcall(reserve_all, self, lists, entries)
  if ok then return entries end
  release(entries)
  error(problem, 0)
end

--- Takes the memory for all updates with these inputs, asking their policies where it is refused.
function Group:reserve(...)
  reserve(self, {...})
end

--- Runs every update with its list of inputs: group({x}, {z}) returns the list of losses. When one raises,
--- those before it have committed, and those after it have not begun.
---@return number[]
function Group:__call(...)
  local lists, losses = {...}, {}
  local entries = reserve(self, lists)
  local _ <close> = check.finally(function() release(entries) end)
  for i, u in ipairs(self.updates) do losses[i] = u(table.unpack(lists[i])) end
  return losses
end

return M
