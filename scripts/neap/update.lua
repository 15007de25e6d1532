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

--- An update of parameters as a transaction. Called with the loss function's inputs it does one: forward, backward and
--- step, in the memory there is. Then either all has changed (parameters, optimizer, buffers, random numbers) or
--- nothing. It returns the loss (a number) and then the loss function's other results, as tensors.
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

---@class neap.UpdateOptions
---@field loss fun(...: neap.Tensor|number): neap.Tensor, ... of the inputs: the loss, one number, then other results
---@field optimizer neap.Optimizer with parameters
---@field policy? neap.Policy for when memory is short (default policy.auto {stop = false})
---@field grain? integer samples a slab: the unit of parallelism and of micro-batches; by ops and shapes when left out
---@field clip_norm? number gradients are scaled so that their norm, of all together, is at most this
---@field clip_value? number each element of the gradients is kept within plus and minus this, after clip_norm
---@field batch_dims? (integer|false)[] the inputs' dimension of samples, negative from the end; false: none (default 1)
---@field precision? "fp32" of the arithmetic (default "fp32")

--- An update. The loss is traced once for each signature of its inputs (dtypes, shapes, modes of modules) and then
--- runs without Lua: what changes from step to step must be an input, numbers included. What a trace keeps, and which
--- changes of it are noticed, [neap.compile](tensor.md#neapcompile) tells. Results are the same bits for any number of
--- threads and any micro-batch of whole slabs. An engine has at most one unfinished update at a time.
---@param options neap.UpdateOptions
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
      local shape = shape_of((select(i, ...)))
      return shape[d < 0 and #shape + 1 + d or d]
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
  negotiate.plan(entry, self.micro)
  return trace.add(self.entries, entry, KEPT)
end

--- The entry for these inputs. Where one batch had to be cut, others will have to be, too: the last answer holds
--- for all signatures, so that it is all there is to save of their plans.
local function entry_of(self, ...)
  local entry = trace.find(self.entries, "core", ...) or new_entry(self, ...)
  if entry.micro ~= negotiate.piece(entry, self.micro) and not entry.core:running() then
    negotiate.plan(entry, self.micro)
  end
  return entry
end

--- A policy decides about one update at a time, and its answer is for the update it was asked about.
local function check_not_asked(self, what)
  if self.asked then
    check.fail("BUSY", "%s: the update's policy is being asked; it answers with an action and makes no update", what)
  end
end

--- The entry for these inputs with a plan that has its memory.
local function ready(self, what, ...)
  check_not_asked(self, what)
  local entry = entry_of(self, ...)
  self.latest = entry
  self.optimizer:sync()
  local ok, problem = entry.core:reserve()
  if not ok then
    if problem.code ~= "OOM" then error(problem, 0) end
    negotiate.settle(self, entry, problem)
  end
  return entry
end

-- Running ----------------------------------------------------------------------------------------------

--- The unfinished run: {entry, core, inputs, before}, or nil. A host may have dropped it, to take memory back at once.
local function still_running(self)
  local run = self.run
  if not run then return nil end
  if run.core:running() then return run end
  run.inputs = nil
end

local function check_same(run, ...)
  local n = select("#", ...)
  if n == 0 then return end
  local same = n == run.inputs.n
  for i = 1, n do same = same and rawequal(run.inputs[i], (select(i, ...))) end
  if not same then
    check.fail("BUSY", "update: an update with other inputs is unfinished; finish it with its own, or drop() it")
  end
end

--- Known from here on, also when an error comes before the next line of a script.
local function begin(self, entry, ...)
  local run = {entry = entry, core = entry.core, inputs = table.pack(...), before = entry.core:commits()}
  self.run = run
  run.core:begin(...)
  return run
end

local function advance(self, run, seconds)
  local results = table.pack(pcall(run.core.step, run.core, seconds))
  if not results[1] or results[2] then run.inputs = nil end
  if not results[1] then error(results[2], 0) end
  if results[2] then self.committed = run.entry end
  return table.unpack(results, 2, results.n)
end

local function note_commit(self, entry, ...)
  self.committed = entry
  return ...
end

--- One update with these inputs: the loss (a number), then the loss function's other results.
function Update:__call(...)
  local run = still_running(self)
  if run then
    check_same(run, ...)
    return select(2, advance(self, run, math.huge))
  end
  local entry = ready(self, "update", ...)
  return note_commit(self, entry, entry.core(...))
end

--- Works on an update for about so long, then returns; a call after it goes on. For training within a frame.
---@param budget_ms number milliseconds; 0 does the least there is to do
---@param ... neap.Tensor|number inputs, which may be left out while an update is unfinished
---@return boolean done whether it was committed
---@return number? loss then, and after it the loss function's other results
function Update:step(budget_ms, ...)
  check.value("update:step", "the budget in milliseconds", budget_ms, {kind = "number", min = 0})
  local run = still_running(self)
  if run then
    check_same(run, ...)
  else
    if select("#", ...) == 0 then
      check.fail("INVALID", "update:step: no update is unfinished, so inputs are needed")
    end
    run = begin(self, ready(self, "update:step", ...), ...)
  end
  return advance(self, run, budget_ms / 1000)
end

--- Traces, plans and takes the memory for inputs like these, so that the first update has only to run.
---@param ... neap.Tensor|number|integer[] inputs, or shapes as `{8, 3, dtype = "fp32"}` in their place
function Update:prepare(...)
  if still_running(self) then return end
  if select("#", ...) == 0 then check.fail("INVALID", "update:prepare: inputs are needed, their values are not") end
  ready(self, "update:prepare", ...)
end

--- Forgets an unfinished update: everything is as before it began.
function Update:drop()
  local run = still_running(self)
  if run then
    run.core:drop()
    run.inputs = nil
  end
end

--- Whether an update is unfinished.
---@return boolean
function Update:is_running()
  return still_running(self) ~= nil
end

--- The last run that step() began, if it was committed, and its loss: for whoever counts commits and may have
--- been interrupted between one and the counting of it.
---@package
---@return table? run, number? loss
function Update:last_commit()
  local run = self.run
  if run and not still_running(self) and run.core:commits() > run.before then return run, run.core:loss() end
end

--- The norm of all gradients of the last update, before clipping; NaN unless clip_norm was given.
---@return number
function Update:grad_norm()
  if not self.committed then check.fail("INVALID", "update:grad_norm(): no update was made yet") end
  return self.committed.core:grad_norm()
end

-- Memory -----------------------------------------------------------------------------------------------

local function some_entry(self, what, ...)
  if select("#", ...) > 0 then return entry_of(self, ...) end
  if not self.entries[1] then
    check.fail("INVALID", "%s: no inputs were seen yet; give inputs, or make an update first", what)
  end
  return self.entries[1]
end

--- Bytes of the plan in force, known without running: `{parameters =, gradients =, optimizer =, activations =,
--- workspace =, outputs =, arena =, peak =}`. outputs: the loss function's other results; arena: what is reserved for
--- a run; peak: all of it.
---@param ... neap.Tensor|number|integer[] inputs or shapes; those seen last when left out
---@return table<string, integer>
function Update:memory(...)
  return some_entry(self, "update:memory", ...).core:forecast().memory
end

---@class neap.Forecast
---@field memory table<string, integer> bytes, as `update:memory` tells
---@field fits boolean now
---@field exact "bits"|"rounding"|false what of the result changes against the whole batch
---@field seconds number estimated, of an update
---@field micro integer? samples at once
---@field grain integer samples of a slab

---@class neap.PredictOptions
---@field micro_batch? integer samples at once; the whole batch when left out
---@field inputs? table tensors or shapes; those seen last when left out

--- What another plan would need. Nothing is run.
---@param options? neap.PredictOptions
---@return neap.Forecast
function Update:predict_memory(options)
  local o = check.options("update:predict_memory", options, {
    micro_batch = {kind = "integer", min = 1}, inputs = {kind = "table", default = {}},
  })
  local entry = some_entry(self, "update:predict_memory", table.unpack(o.inputs))
  return negotiate.predict(entry, o.micro_batch)
end

--- The plan of the last update, also an unfinished one: `{micro_batch =, batch =, grain =, exact =}`; nil before the
--- first.
---@return table?
function Update:plan()
  local entry = self.latest
  if not entry then return nil end
  local f = entry.core:forecast()
  return {micro_batch = entry.micro or entry.batch, batch = entry.batch, grain = f.grain, exact = f.exact}
end

--- Micro-batches of n samples from now on; nil is whole batches. An unfinished update is dropped.
---@param n? integer
function Update:start_with(n)
  if n ~= nil then n = check.value("update:start_with", "the number of samples", n, {kind = "integer", min = 1}) end
  check_not_asked(self, "update:start_with")
  self:drop()
  self.entries, self.latest, self.committed, self.micro = {}, nil, nil, n
end

--- Raises while the policy is being asked.
---@package
Update.check_not_asked = check_not_asked

--- Samples of a micro-batch, as the last answer of the policy has them; nil is whole batches. With it in
--- start_with, another process makes the same plans.
---@return integer?
function Update:micro_batch()
  return self.micro
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

--- Called with a list of inputs for each update, it runs them in order and returns the list of losses. When one raises,
--- those before it have committed, and those after it have not begun.
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
    for i, u in ipairs(self.updates) do entries[i] = ready(u, "neap.group", table.unpack(lists[i])) end
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
---@param ... table a list of inputs for each update
function Group:reserve(...)
  reserve(self, {...})
end

--- Runs every update with its list of inputs: group({x}, {z}) returns the list of losses. When one raises,
--- those before it have committed, and those after it have not begun.
---@return number[]
function Group:__call(...)
  local lists, losses = {...}, {}
  local entries = reserve(self, lists)
  return check.finally(function() release(entries) end, function()
    for i, u in ipairs(self.updates) do losses[i] = u(table.unpack(lists[i])) end
    return losses
  end)
end

return M
