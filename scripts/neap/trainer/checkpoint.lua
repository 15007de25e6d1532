--- Checkpoints of a trainer: /model/<path>, /optimizer/<moment>/<path> and the attributes of /optimizer and
--- /state. Written straight from the parameters, without a copy.
local core = require "neap.core"
local check = require "neap.check"
local json = require "neap.json"
local module = require "neap.nn.module"
local progress = require "neap.trainer.progress"

local M = {}

local VERSION <const> = 1 -- of the layout of /state and /optimizer

-- Writing ----------------------------------------------------------------------------------------------

local function model_group(model)
  local group = {}
  for _, item in ipairs(module.tensors(model)) do group[item.path] = item.tensor end
  return group
end

local function optimizer_group(optimizer)
  local group = optimizer:moments()
  group.attributes = {
    kind = optimizer:kind(), step = optimizer:step_count(), groups = json.encode(optimizer:settings(), "the settings"),
  }
  return group
end

local function state_group(trainer)
  local seed, position, updates, draws = core.random_state()
  local attributes = {
    version = VERSION, neap = core.version, device = core.device(), step = trainer.steps_done,
    epoch = trainer.epochs_done, loader = json.encode(trainer.loader:state(), "the loader's state"), seed = seed,
    epoch_samples = trainer.meter.samples, epoch_loss = trainer.meter.sum, -- whose mean a schedule may watch
    random_position = position, updates = updates, draws = draws, user = json.encode(trainer.state, "trainer.state"),
  }
  attributes.micro_batch = trainer.update:micro_batch()
  attributes.best = trainer.saver.best_value
  if trainer.schedule then attributes.schedule = json.encode(trainer.schedule:state(), "the schedule's state") end
  return {attributes = attributes}
end

--- Writes a checkpoint, whole or not at all.
---@param trainer neap.Trainer
---@param path string
---@return true? ok, table? err
function M.save(trainer, path)
  return core.hdf5.write(path, {
    attributes = {neap_checkpoint = VERSION},
    model = model_group(trainer.model), optimizer = optimizer_group(trainer.optimizer), state = state_group(trainer),
  })
end

-- Reading ----------------------------------------------------------------------------------------------

local function attributes(file, path, group)
  local found, err = file:attributes(group)
  if not found then
    check.fail(err.code, "%s is no checkpoint of a trainer: %s", path, err.message)
  end
  return found
end

local count = {kind = "integer", min = 0}

local numbers = {
  step = count, epoch = count, seed = {kind = "integer"}, random_position = count, updates = count, draws = count,
  micro_batch = {kind = "integer", min = 1, optional = true}, best = {kind = "number", optional = true},
  epoch_samples = {kind = "integer", min = 0, optional = true},
}

local function read_state(file, path)
  local a = attributes(file, path, "state")
  if math.type(a.version) ~= "integer" or a.version > VERSION then
    check.fail("UNSUPPORTED", "%s: the checkpoint has version %s, this build reads up to %d", path,
               tostring(a.version), VERSION)
  end
  for name, spec in pairs(numbers) do
    if a[name] ~= nil or not spec.optional then check.value(path, "state/" .. name, a[name], spec) end
  end
  -- Not a number is a loss, too.
  if a.epoch_loss ~= nil and type(a.epoch_loss) ~= "number" then
    check.fail("INVALID", "%s: state/epoch_loss is %s, expected a number", path, check.describe(a.epoch_loss))
  end
  for _, name in ipairs {"loader", "user"} do
    a[name] = json.decode(check.value(path, "state/" .. name, a[name], {kind = "string"}))
  end
  return a
end

--- Datasets as far as their shapes are concerned; values are read later, one by one.
local function find_dataset(file, item, tensor)
  local set, err = file:dataset(item)
  if not set then error(err, 0) end
  if check.shape_text(set.shape) ~= check.shape_text(tensor.shape) or set.dtype ~= tensor.dtype then
    check.fail("SHAPE", "the checkpoint's %q is %s %s, expected %s %s", item, set.dtype, check.shape_text(set.shape),
               tensor.dtype, check.shape_text(tensor.shape))
  end
  return set
end

--- What goes where: a list of {set, tensor}.
local function find_values(file, trainer)
  local list = {}
  for _, item in ipairs(module.tensors(trainer.model)) do
    list[#list + 1] = {find_dataset(file, "model/" .. item.path, item.tensor), item.tensor}
  end
  for name, tensors in pairs(trainer.optimizer:moments()) do
    for key, tensor in pairs(tensors) do
      list[#list + 1] = {find_dataset(file, ("optimizer/%s/%s"):format(name, key), tensor), tensor}
    end
  end
  return list
end

local function read_optimizer(file, path, trainer)
  local a = attributes(file, path, "optimizer")
  local saved = {kind = a.kind, step = a.step}
  saved.groups = json.decode(check.value(path, "optimizer/groups", a.groups, {kind = "string"}))
  trainer.optimizer:check_settings(saved)
  return saved
end

local function check_schedule(trainer, a, path)
  if not trainer.schedule then return end
  a.schedule = json.decode(check.value(path, "state/schedule", a.schedule, {kind = "string"}))
  trainer.schedule:check_state(a.schedule)
end

local function put_state(trainer, a)
  trainer.steps_done, trainer.epochs_done, trainer.state = a.step, a.epoch, a.user
  trainer.loader:load_state(a.loader)
  core.random_state(a.seed, a.random_position, a.updates, a.draws)
  trainer.update:start_with(a.micro_batch)
  trainer.meter = progress.meter(a.epoch_samples, a.epoch_loss)
  if trainer.schedule then trainer.schedule:load_state(a.schedule) end
  trainer.batch, trainer.unwritten, trainer.owed, trainer.retries = nil, nil, {}, 0
end

--- Calls use(tensor, value read) for all values, one in memory at a time.
local function read_values(values, use)
  for _, pair in ipairs(values) do
    local read <close> = pair[1]:read()
    use(pair[2], read)
  end
end

local function put_settings(trainer, settings)
  local ok, problem = pcall(trainer.optimizer.load_settings, trainer.optimizer, settings)
  if ok then return end
  trainer.half_resumed = nil
  error(problem, 0)
end

--- Puts a trainer where a checkpoint was saved. Everything is read, values with their checksums, and looked at
--- before the first change. What can still go wrong after that (the disk, Ctrl-C) leaves a trainer that knows
--- it is no longer whole.
---@param trainer neap.Trainer
---@param path string
---@return true? ok, table? err
function M.resume(trainer, path)
  trainer.update:check_not_asked "trainer:resume"
  local file, err = core.hdf5.open(path)
  if not file then return nil, err end
  local state, settings = read_state(file, path), read_optimizer(file, path, trainer)
  check_schedule(trainer, state, path)
  trainer.loader:check_state(state.loader)
  local values = find_values(file, trainer)
  read_values(values, function() end)
  trainer.update:drop() -- which changes nothing either: the batch in hand begins again
  for _, pair in ipairs(values) do core.writable(pair[2], "trainer:resume") end
  trainer.half_resumed = path
  put_settings(trainer, settings) -- all of them or none
  read_values(values, function(tensor, read) tensor:copy_(read) end)
  put_state(trainer, state)
  trainer.saver:resumed(trainer, path, state.best)
  trainer.half_resumed = nil
  return true
end

-- When to save -----------------------------------------------------------------------------------------

local Saver = {}
Saver.__index = Saver

local best_specs = {
  metric = {kind = "string", default = "loss"}, mode = {kind = "string"}, path = {kind = "string"},
}

local function read_best(best, path)
  if not best then return nil end
  local o = check.options("neap.trainer: checkpoint.best", best, best_specs)
  o.mode = o.mode or (o.metric == "loss" and "min" or "max")
  if o.mode ~= "min" and o.mode ~= "max" then
    check.fail("INVALID", "neap.trainer: checkpoint.best.mode is %q, expected \"min\" or \"max\"", o.mode)
  end
  o.path = o.path or path:gsub("%.h5$", "") .. ".best.h5"
  return o
end

--- Decides when a trainer saves by itself. options: {path, every, keep, best}, or nil for never.
---@param options table?
function M.new(options)
  if not options then return setmetatable({}, Saver) end
  local o = check.options("neap.trainer: checkpoint", options, {
    path = {kind = "string", required = true}, every = {kind = "integer", min = 1},
    keep = {kind = "integer", min = 1, default = 2}, best = {kind = "table"},
  })
  o.best = read_best(o.best, o.path)
  return setmetatable(o, Saver)
end

--- Where a policy's checkpoint goes when it names no path.
function Saver:emergency_path()
  return self.path or "neap-checkpoint.h5"
end

local function must(ok, err)
  if not ok then error(err, 0) end
end

--- Older files move out of the way, but not a device, a folder or a pipe that a path names by mistake.
local function check_place(path)
  local file, err = core.hdf5.open(path)
  if file then file:close() elseif err.code == "INVALID" then error(err, 0) end
end

--- The new file is whole before the older ones move: path, path.1, path.2, ... Whoever is killed here leaves one at the
--- path.
local function save_kept(self, trainer)
  check_place(self.path)
  -- A host may give its scripts no os library; then there is one file.
  if self.keep == 1 or not os then
    must(trainer:save(self.path))
  else
    local fresh = self.path .. ".new"
    must(M.save(trainer, fresh))
    for i = self.keep - 2, 1, -1 do os.rename(self.path .. "." .. i, self.path .. "." .. i + 1) end
    core.hdf5.keep(self.path, self.path .. ".1")
    must(os.rename(fresh, self.path))
    trainer:note("checkpoint", {path = self.path})
  end
  self.saved_at = trainer.steps_done
end

--- The file at the saver's own path is what the trainer is now; of others that is not known.
function Saver:resumed(trainer, path, best_value)
  self.best_value = best_value
  self.saved_at = path == self.path and trainer.steps_done or nil
end

--- After a commit; `epoch_ended` tells whether it was an epoch's last.
function Saver:after_step(trainer, epoch_ended)
  if not self.path then return end
  local due
  if self.every then due = trainer.steps_done % self.every == 0 else due = epoch_ended end
  if due then save_kept(self, trainer) end
end

--- At the end of fit: what was not saved yet.
function Saver:after_fit(trainer)
  if self.path and self.saved_at ~= trainer.steps_done then save_kept(self, trainer) end
end

--- After an evaluation: keeps the best so far.
function Saver:after_evaluation(trainer, result)
  local best = self.best
  if not best then return end
  local v, before = result[best.metric], self.best_value
  if v == nil then
    check.fail("INVALID", "neap.trainer: checkpoint.best.metric is %q; the evaluation gave %s", best.metric,
               table.concat(check.sorted_keys(result), ", "))
  end
  if before == nil or best.mode == "min" and v < before or best.mode == "max" and v > before then
    self.best_value = v
    must(trainer:save(best.path))
  end
end

return M
