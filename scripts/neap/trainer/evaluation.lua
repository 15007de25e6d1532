--- Evaluation: means over a loader by programs of its own, in evaluation mode.
local check = require "neap.check"
local program = require "neap.program"
local step_loss = require "neap.trainer.step"

local M = {}

local floats = {fp32 = true, fp64 = true, fp16 = true, bf16 = true}

--- The share of right classes; nil where predictions are not scores (batch, classes) of integer targets.
local function accuracy(pred, target)
  if pred.ndim ~= 2 or target.ndim ~= 1 or floats[target.dtype] then return nil end
  return pred:argmax {dim = -1}:eq(target:to "int64"):to "fp32":mean()
end

--- What a batch's inputs lead to: the loss, the predictions when metrics want them, the accuracy if there is
--- one.
local function make_program(trainer, with_pred)
  local model, loss, step = trainer.model, trainer.user_loss, trainer.user_step
  if step then
    local names = trainer.names
    return program.pure("trainer:evaluate", function(...) return (step_loss(step, model, names, ...)) end)
  end
  return program.pure("trainer:evaluate", function(x, y)
    local pred = model(x)
    local results = {loss(pred, y)}
    if with_pred then results[2] = pred end
    results[#results + 1] = accuracy(pred, y)
    return table.unpack(results)
  end)
end

local function program_of(trainer, with_pred)
  local key = with_pred and "program_with_pred" or "program"
  local kept = trainer.evaluation or {}
  trainer.evaluation = kept
  kept[key] = kept[key] or make_program(trainer, with_pred)
  return kept[key]
end

local function number(v, name)
  if check.is_tensor(v) then v = v:item() end
  return check.value("trainer:evaluate", "metric " .. name, v, {kind = "number"})
end

local function add(sums, name, v, count)
  sums[name] = (sums[name] or 0.0) + v * count
end

--- A batch at once where memory allows, else in halves.
local function run_piece(run, metrics, sums, inputs, count)
  local results = table.pack(pcall(run, table.unpack(inputs)))
  if not results[1] then
    local problem = results[2]
    if count < 2 or type(problem) ~= "table" or problem.code ~= "OOM" then error(problem, 0) end
    local half = count // 2
    for _, part in ipairs {{1, half}, {half + 1, count - half}} do
      local piece = {}
      for i, t in ipairs(inputs) do piece[i] = t:narrow(1, part[1], part[2]) end
      run_piece(run, metrics, sums, piece, part[2])
    end
    return
  end
  add(sums, "loss", number(results[2], "loss"), count)
  local last = results[results.n]
  if results.n > (metrics and 3 or 2) then add(sums, "accuracy", number(last, "accuracy"), count) end
  for name, metric in pairs(metrics or {}) do
    add(sums, name, number(metric(results[3], inputs[2]), name), count)
  end
end

local function fields(trainer, batch)
  local list = {}
  for i, name in ipairs(trainer.names or {"x", "y"}) do
    list[i] = check.value("trainer:evaluate", "batch." .. name, batch[name], {kind = "tensor"})
  end
  return list
end

local function means(sums, count)
  local out = {}
  for name, sum in pairs(sums) do out[name] = sum / count end
  return out
end

local function over_loader(trainer, loader, metrics)
  local sums, count = {}, 0
  local run
  for batch in loader:from_start():epoch() do
    local inputs = fields(trainer, batch)
    run = run or program_of(trainer, metrics ~= nil)
    run_piece(run, metrics, sums, inputs, batch.size)
    count = count + batch.size
  end
  if count == 0 then check.fail("INVALID", "trainer:evaluate: the loader has no samples") end
  return means(sums, count)
end

local function check_metrics(trainer, metrics)
  if not metrics then return end
  if trainer.user_step then
    check.fail("INVALID", "trainer:evaluate: metrics need a trainer with loss =, which knows predictions")
  end
  for name, metric in pairs(metrics) do
    if type(name) ~= "string" or name == "loss" or not check.is_callable(metric) then
      check.fail("INVALID", "trainer:evaluate: metrics[%s] is %s; expected functions by name, other than loss",
                 tostring(name), check.describe(metric))
    end
  end
end

--- Means of loss, accuracy and metrics over all of a loader, wherever it is. Modes and the loader's place are as
--- before, also after an error.
---@param trainer neap.Trainer
---@param loader neap.Loader
---@param options? {metrics: table<string, function>}
---@return table<string, number>
function M.run(trainer, loader, options)
  local o = check.options("trainer:evaluate", options, {metrics = {kind = "table"}})
  check_metrics(trainer, o.metrics)
  local modes = trainer.model:modes()
  return check.finally(function() trainer.model:restore_modes(modes) end, function()
    trainer.model:eval()
    return over_loader(trainer, loader, o.metrics)
  end)
end

--- Shows a schedule that watches an evaluation's metric what came of it.
---@param schedule neap.Schedule?
---@param result table<string, number>
function M.show_schedule(schedule, result)
  if not schedule or not schedule.metric then return end
  local v = result[schedule.metric]
  if v == nil then
    check.fail("INVALID", "%s: metric is %q; the evaluation gave %s", schedule.what, schedule.metric,
               table.concat(check.sorted_keys(result), ", "))
  end
  schedule:observe(v)
end

return M
