--- The trainer: a loop over one update, with hooks, evaluation, checkpoints and policies.
---
---   local trainer = neap.trainer {
---     model = model, loss = neap.cross_entropy, optimizer = neap.optim.adamw {lr = 1e-3}, loader = loader,
---   }
---   trainer:fit {epochs = 3}
local core = require "neap.core"
local check = require "neap.check"
local data = require "neap.data"
local fill = require "neap.nn.fill"
local module = require "neap.nn.module"
local negotiate = require "neap.negotiate"
local optim = require "neap.optim"
local policy = require "neap.policy"
local update = require "neap.update"
local checkpoint = require "neap.trainer.checkpoint"
local evaluation = require "neap.trainer.evaluation"
local journal = require "neap.trainer.journal"
local progress = require "neap.trainer.progress"
local schedule = require "neap.schedule"
local step_loss = require "neap.trainer.step"

local M = {}

--- A loop over one update. It may be stopped, saved, resumed and sliced at any step, and goes on to the same bits.
---@class neap.Trainer
---@field model neap.Module
---@field optimizer neap.Optimizer
---@field loader neap.Loader
---@field update neap.Update which it runs
---@field state table plain data of yours, saved with checkpoints: `trainer.state.rounds = 3`
---@field events table[] what happened but for steps: `{event =, step =, epoch =, ...}`
---@field steps_done integer committed updates
---@field epochs_done integer
---@field loss number? of the last update
local Trainer = {__name = "neap.trainer"}
Trainer.__index = Trainer

local RETRIES <const> = 20

local specs = {
  model = {kind = "table", required = true},
  loss = {kind = "callable"},
  step = {kind = "callable"},
  optimizer = {kind = "table", required = true},
  loader = {kind = "table", required = true},
  policy = {kind = "callable"},
  precision = {kind = "string"},
  grain = {kind = "integer", min = 1},
  clip_norm = {kind = "number", above = 0},
  clip_value = {kind = "number", above = 0},
  schedule = {kind = "table"},
  checkpoint = {kind = "table"},
  journal = {kind = "string"},
  seed = {kind = "integer"},
  progress = {kind = "any"},
}

local function check_parts(o)
  if not module.is_module(o.model) then
    check.fail("INVALID", "neap.trainer: model is %s, expected a module", check.describe(o.model))
  end
  if not optim.is_optimizer(o.optimizer) then
    check.fail("INVALID", "neap.trainer: optimizer is %s, expected one of neap.optim", check.describe(o.optimizer))
  end
  if o.schedule and not schedule.is_schedule(o.schedule) then
    check.fail("INVALID", "neap.trainer: schedule is %s, expected one of neap.optim.schedule",
               check.describe(o.schedule))
  end
  if not data.is_loader(o.loader) then
    check.fail("INVALID", "neap.trainer: loader is %s, expected a neap.data.loader", check.describe(o.loader))
  end
  if (o.loss == nil) == (o.step == nil) then
    check.fail("INVALID", "neap.trainer: give either loss(pred, target) or step(model, batch)")
  end
end

local function field(batch, name)
  local v = batch[name]
  if not check.is_tensor(v) then
    check.fail("INVALID", "neap.trainer: batch.%s is %s, expected a tensor", name, check.describe(v))
  end
  return v
end

--- Names of a batch's tensors, in an order that does not change.
local function tensor_names(batch)
  local names = {}
  for _, name in ipairs(check.sorted_keys(batch)) do
    if check.is_tensor(batch[name]) then names[#names + 1] = name end
  end
  return names
end

--- Which fields of a batch the update takes.
local function input_names(self, batch)
  if not self.names then self.names = self.user_step and tensor_names(batch) or {"x", "y"} end
  return self.names
end

---@return neap.Tensor ...
local function inputs(self, batch)
  local list = {}
  for i, name in ipairs(input_names(self, batch)) do list[i] = field(batch, name) end
  return table.unpack(list)
end

--- What the update traces.
local function loss_function(self)
  local model, loss, step = self.model, self.user_loss, self.user_step
  if loss then return function(x, y) return loss(model(x), y) end end
  return function(...) return step_loss(step, model, self.names, ...) end
end

local function seed_all(self, seed)
  if not seed then return end
  fill.manual_seed(seed)
  if not self.loader.seed_given then
    local place = self.loader:state()
    place.seed = seed
    self.loader:load_state(place)
  end
end

---@class neap.TrainerOptions
---@field model neap.Module
---@field loader neap.Loader
---@field optimizer neap.Optimizer without parameters it takes the model's
---@field loss? fun(pred: neap.Tensor, target: neap.Tensor): neap.Tensor of `model(batch.x)` and `batch.y`: this or step
---@field step? fun(model: neap.Module, batch: table): neap.Tensor the loss of a batch: its tensors and `size` alone
---@field schedule? neap.Schedule of the learning rate
---@field policy? neap.Policy for when memory is short (default policy.auto())
---@field checkpoint? neap.CheckpointOptions when to save by itself; never when left out
---@field journal? string path of a file that gets a JSON line for each event
---@field seed? integer of parameters that have no values yet, dropout and the loader's order
---@field grain? integer as for `neap.update`, like the next three
---@field clip_norm? number
---@field clip_value? number
---@field precision? "fp32" (default "fp32")
---@field progress? boolean|fun(line: string) false: say nothing; a function gets the lines; else standard error does

--- `best` saves the best evaluation, too: by the loss unless `metric` is given, to "NAME.best.h5" unless `path` is.
---@class neap.CheckpointOptions
---@field path string older ones are kept as path.1, path.2, ...
---@field every? integer steps; each epoch when left out
---@field keep? integer how many (default 2)
---@field best? {metric: string, mode: "min"|"max", path: string} where the best evaluation is saved

--- A trainer.
---@param options neap.TrainerOptions
---@return neap.Trainer
function M.new(options)
  local o = check.options("neap.trainer", options, specs)
  check_parts(o)
  local self = setmetatable({
    model = o.model, optimizer = o.optimizer, loader = o.loader, user_loss = o.loss, user_step = o.step,
    state = {}, events = {}, handlers = {}, owed = {}, steps_done = 0, epochs_done = 0, retries = 0,
    progress = o.progress,
  }, Trainer)
  seed_all(self, o.seed)
  self.saver = checkpoint.new(o.checkpoint)
  self.journal = journal.open(o.journal)
  if not o.optimizer:is_bound() then o.optimizer:bind(o.model) end
  self.schedule = o.schedule and o.schedule:bind(o.optimizer)
  self.update = update.new {
    loss = loss_function(self), optimizer = o.optimizer, policy = o.policy or policy.auto(), grain = o.grain,
    clip_norm = o.clip_norm, clip_value = o.clip_value, precision = o.precision,
  }
  self.update.on_oom = function(oom, act) self:note_oom(oom, act) end
  self.meter = progress.meter()
  return self
end

-- Events -----------------------------------------------------------------------------------------------

local event_names = {step = true, epoch = true, oom = true, checkpoint = true, stop = true}

--- Calls a function at each event of a kind: after a committed "step" (`{loss =, size =}`) or "epoch" (`{loss =,
--- samples_per_second =}`), after an answer to an "oom" (`{requested =, answer =, peak =, ...}`), a "checkpoint"
--- (`{path =}`), or a "stop" (`{reason =}`).
---@param name "step"|"epoch"|"oom"|"checkpoint"|"stop"
---@param fn fun(trainer: neap.Trainer, event: table)
---@return neap.Trainer self
function Trainer:on(name, fn)
  if not event_names[name] then
    check.fail("INVALID", "trainer:on: there is no event %s; events are %s", check.describe(name),
               table.concat(check.sorted_keys(event_names), ", "))
  end
  check.value("trainer:on", "the handler", fn, {kind = "callable"})
  self.handlers[name] = self.handlers[name] or {}
  table.insert(self.handlers[name], fn)
  return self
end

---@package
function Trainer:note(name, fields)
  local event = {event = name, step = self.steps_done, epoch = self.epochs_done}
  for key, v in pairs(fields) do event[key] = v end
  -- Steps are too many to keep.
  if name ~= "step" then self.events[#self.events + 1] = event end
  self.journal:write(event)
  for _, fn in ipairs(self.handlers[name] or {}) do fn(self, event) end
end

---@package
function Trainer:note_oom(oom, act)
  local p = act and oom:predict(act)
  self:note("oom", {
    requested = oom.requested, budget = oom.budget, in_use = oom.in_use, largest_free = oom.largest_free,
    phase = oom.phase, attempt = oom.attempt, batch = oom.plan.batch, micro_batch = oom.plan.micro_batch,
    answer = act and tostring(act) or "none", peak = p and p.peak, exact = p and p.exact,
    message = tostring(oom),
  })
end

-- The ledger -------------------------------------------------------------------------------------------
-- What is counted at a commit: steps, epochs, the loader's place, the schedule, the mean of the epoch. An error may
-- come at any line of a script (Ctrl-C, a deadline), so the ledger's new values are made first and written then,
-- which may be done twice; events are told after that. A batch is only looked at until it is counted.

--- The ledger after the update in hand was committed by `run`.
local function ledger_after(self, run, loss)
  local batch, meter = self.batch, self.meter
  local epoch, position = self.loader:place_after(batch)
  local ends = epoch > batch.epoch
  local samples, sum = meter:with(batch.size, loss)
  local owed = {{name = "step", fields = {loss = loss, size = batch.size}}}
  if ends then owed[2] = {name = "epoch", fields = {loss = sum / samples, samples_per_second = meter:rate(samples)}} end
  owed[#owed + 1] = {save = true, ends = ends}
  return {
    run = run, loss = loss, steps = self.steps_done + 1, epochs = self.epochs_done + (ends and 1 or 0),
    epoch = epoch, position = position, samples = samples, sum = sum, ends = ends, owed = owed,
    schedule = self.schedule and self.schedule:state_after(batch.size, ends and sum / samples or nil),
  }
end

local function write_ledger(self, after)
  self.steps_done, self.epochs_done, self.loss = after.steps, after.epochs, after.loss
  self.loader:go_to(after.epoch, after.position)
  self.meter:put(after.samples, after.sum, after.ends)
  if after.schedule then self.schedule:load_state(after.schedule) end
  self.batch, self.retries, self.counted, self.owed = nil, 0, after.run, after.owed
end

--- Counts the last commit unless that was done. True when there was one to count.
local function settle(self)
  if not self.unwritten then
    local run, loss = self.update:last_commit()
    if not run or run == self.counted or not self.batch then return false end
    self.unwritten = ledger_after(self, run, loss)
  end
  write_ledger(self, self.unwritten)
  self.unwritten = nil
  return true
end

--- Tells of what was counted: each once, though a handler may raise an error, or train on itself.
local function tell(self)
  while #self.owed > 0 do
    local item = table.remove(self.owed, 1)
    if item.save then self.saver:after_step(self, item.ends) else self:note(item.name, item.fields) end
  end
end

local function check_whole(self)
  if self.half_resumed then
    check.fail("INVALID", "neap.trainer: resuming from %q did not come to its end; resume again before anything else",
               self.half_resumed)
  end
end

--- Catches up with what an error left undone. True when a commit was counted.
local function catch_up(self)
  check_whole(self)
  local counted = settle(self)
  tell(self)
  return counted
end

-- One slice --------------------------------------------------------------------------------------------

--- Ends an epoch of which less is left than a batch, which grew meanwhile, when the loader drops such a rest. True when
--- it did.
local function end_short_epoch(self)
  local loader, meter = self.loader, self.meter
  if self.batch or loader.position == 0 or not loader:is_exhausted() then return false end
  local mean = meter.samples > 0 and meter:read() or nil
  self.unwritten = {
    run = self.counted, loss = self.loss, steps = self.steps_done, epochs = self.epochs_done + 1,
    epoch = loader.epoch_number + 1, position = 0, samples = meter.samples, sum = meter.sum, ends = true,
    schedule = self.schedule and mean and self.schedule:state_at_end(mean),
    owed = {
      {name = "epoch", fields = {loss = mean, samples_per_second = meter:rate(meter.samples)}},
      {save = true, ends = true},
    },
  }
  catch_up(self)
  return true
end

local function take_batch(self)
  if self.batch then return self.batch end
  while end_short_epoch(self) do end
  if self.loader:is_exhausted() then
    check.fail("INVALID", "neap.trainer: an epoch of the loader has no batch: %d samples, batch size %d%s",
               self.loader.dataset.size, self.loader.batch_size, self.loader.drop_last and ", drop_last" or "")
  end
  self.meter:start()
  for attempt = 1, math.huge do
    local ok, batch = pcall(self.loader.peek, self.loader)
    if ok then
      self.batch = batch
      return batch
    end
    local problem = batch
    if type(problem) ~= "table" or problem.code ~= "OOM" then error(problem, 0) end
    negotiate.settle_data(self.update, self.loader.batch_size, problem, attempt)
  end
end

local function change_batch(self, n)
  self.batch = nil
  self.loader:set_batch_size(n)
end

local function end_by_policy(self, problem, saved)
  local where = saved and "; the checkpoint is " .. saved or "; no checkpoint was asked for"
  self:note("stop", {reason = problem.message, path = saved})
  error(core.error("STOPPED", problem.message .. where, {
    exit_code = 3, bytes = problem.bytes, path = saved, action = problem.action,
  }), 0)
end

local function save_for_policy(self, item)
  local path = item.path or self.saver:emergency_path()
  local finished, ok, err = pcall(self.save, self, path)
  if finished and ok then return path end
  if not finished then err = ok end
  error(core.error("STOPPED", ("out of memory, and no checkpoint could be saved at %q: %s"):format(path,
    tostring(err)), {exit_code = 3}), 0)
end

--- What a policy answered that an update alone cannot do.
local function carry_out(self, problem)
  self.retries = self.retries + 1
  if self.retries > RETRIES then error(problem, 0) end
  local saved
  for _, item in ipairs(problem.action.items) do
    if item.kind == "checkpoint" then saved = save_for_policy(self, item) end
    if item.kind == "batch" then change_batch(self, item.n) end
    if item.kind == "stop" then end_by_policy(self, problem, saved) end
  end
end

local function work(self, budget_ms)
  return self.update:step(budget_ms, inputs(self, take_batch(self)))
end

--- Works for about budget_ms on the update in hand. True when it was committed.
local function advance(self, budget_ms)
  if catch_up(self) then return true end
  while true do
    local ok, done = pcall(work, self, budget_ms)
    if ok then
      if done then catch_up(self) end
      return done
    end
    local problem = done
    if type(problem) ~= "table" or not problem.action then error(problem, 0) end
    carry_out(self, problem)
  end
end

--- Does one slice of the training, for a frame of a game; without a budget, one whole update.
---@param options? {budget_ms: number} about so many milliseconds
---@return {committed: boolean, loss: number?, step: integer, epoch: integer}
function Trainer:step(options)
  local o = check.options("trainer:step", options, {budget_ms = {kind = "number", min = 0, default = math.huge}})
  local done = advance(self, o.budget_ms)
  return {committed = done, loss = self.loss, step = self.steps_done, epoch = self.epochs_done}
end

local function prepare(self)
  self.update:prepare(inputs(self, take_batch(self)))
end

--- Traces, plans and takes the memory for the next batch: for a loading screen, before the first slice.
function Trainer:prepare()
  while true do
    local ok, problem = pcall(prepare, self)
    if ok then return end
    if type(problem) ~= "table" or not problem.action then error(problem, 0) end
    carry_out(self, problem)
  end
end

-- The loop ---------------------------------------------------------------------------------------------

local function reached(self, o)
  return o.steps and self.steps_done >= o.steps or o.epochs and self.epochs_done >= o.epochs or false
end

local function train(self, o, display)
  catch_up(self)
  while not reached(self, o) and not self.stopping do
    if not end_short_epoch(self) then advance(self, math.huge) end
    display:update()
  end
end

local function announce_stop(self)
  self:note("stop", {reason = "trainer:stop() was called"})
end

--- Trains until so many epochs or steps are done in all, so that resuming and calling it again is safe.
---@param options {epochs: integer?, steps: integer?} either; with both, whichever comes first
---@return {step: integer, epoch: integer, loss: number?}
function Trainer:fit(options)
  local o = check.options("trainer:fit", options, {
    epochs = {kind = "integer", min = 0}, steps = {kind = "integer", min = 0},
  })
  if not o.epochs and not o.steps then check.fail("INVALID", "trainer:fit: give epochs or steps") end
  self.stopping = false
  local display = progress.new(self, o)
  check.finally(function() display:close() end, train, self, o, display)
  if self.stopping then announce_stop(self) end
  self.saver:after_fit(self)
  return {step = self.steps_done, epoch = self.epochs_done, loss = self.loss}
end

--- Ends fit after the update in hand.
function Trainer:stop()
  self.stopping = true
end

-- The rest ---------------------------------------------------------------------------------------------

--- Means over a loader, from its first sample, with the model in evaluation mode: `loss`, `accuracy` where predictions
--- are scores [N, classes] of integer targets, and metrics. Metrics are functions of a batch's predictions and
--- targets, by name; their values are weighed by the batches' sizes. The loader's place and the modes stay. A batch
--- that memory does not hold is worked through in halves.
---@param loader neap.Loader
---@param options? {metrics: table<string, fun(pred: neap.Tensor, target: neap.Tensor): neap.Tensor|number>}
---@return table<string, number>
function Trainer:evaluate(loader, options)
  if not data.is_loader(loader) then
    check.fail("INVALID", "trainer:evaluate: got %s, expected a neap.data.loader", check.describe(loader))
  end
  if self.user_step and not self.names then input_names(self, self.loader:sample(1)) end
  local result = evaluation.run(self, loader, options)
  evaluation.show_schedule(self.schedule, result)
  self.saver:after_evaluation(self, result)
  return result
end

--- Saves everything that a later run needs to go on with the same bits: parameters, buffers, moments, schedule, step,
--- epoch, the loader's place, random numbers and `trainer.state`, as HDF5. The file is whole or absent.
---@param path string
---@return true? ok
---@return neap.Error? err
function Trainer:save(path)
  check.value("trainer:save", "the path", path, {kind = "string"})
  check_whole(self)
  settle(self)
  local ok, err = checkpoint.save(self, path)
  if not ok then return nil, err end
  self:note("checkpoint", {path = path})
  return true
end

--- Goes on where a checkpoint was saved. nil and an error when there is none; a checkpoint of something else
--- raises an error and changes nothing.
---@param path string
---@return true? ok
---@return neap.Error? err
function Trainer:resume(path)
  check.value("trainer:resume", "the path", path, {kind = "string"})
  local ok, err = checkpoint.resume(self, path)
  if not ok then return nil, err end
  self.journal:write {event = "resume", step = self.steps_done, epoch = self.epochs_done, path = path}
  return true
end

--- Shapes of the update's inputs for a batch of `size`, like the batch in hand or the loader's first sample.
local function input_shapes(self, size)
  local batch = self.batch or self.loader:sample(1)
  local shapes = {inputs(self, batch)}
  for i, tensor in ipairs(shapes) do
    local shape = tensor.shape
    shape[1], shape.dtype = size, tensor.dtype
    shapes[i] = shape
  end
  return shapes
end

--- What an update would need for another batch size or in micro-batches. Nothing is run, and no such batch is loaded.
---@param options? {batch: integer, micro_batch: integer} samples
---@return neap.Forecast
function Trainer:predict_memory(options)
  local o = check.options("trainer:predict_memory", options, {
    batch = {kind = "integer", min = 1}, micro_batch = {kind = "integer", min = 1},
  })
  local shapes = input_shapes(self, o.batch or self.loader.batch_size)
  return self.update:predict_memory {inputs = shapes, micro_batch = o.micro_batch}
end

return M
