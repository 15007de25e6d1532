--- Runs the cases of a reference file through neap and compares with what it says.
---   build/neap tests/reference/run.lua FILE.h5 [--device D] [--only NAME]
--- Layout: /ops/<NAME> with attributes op, args (JSON) and datasets in/1..n, out, grad_out, grad/i;
--- /runs/<NAME> with attributes model, config, optimizer (JSON), loss and datasets params/<path>, x, y,
--- loss_values, final/<path>. A line for each failing case; exit code 1 when there was one.
package.path = "./?.lua;" .. package.path
local neap = require "neap"
local json = require "neap.json"

local function read_arguments()
  local path, only, device
  local i = 1
  while i <= #arg do
    if arg[i] == "--only" or arg[i] == "--device" then
      local v = arg[i + 1]
      if not v then error(arg[i] .. " needs a value", 0) end
      if arg[i] == "--only" then only = v else device = v end
      i = i + 2
    elseif path or arg[i]:find "^%-" then
      error("usage: run.lua FILE.h5 [--device D] [--only NAME]; got " .. arg[i], 0)
    else
      path, i = arg[i], i + 1
    end
  end
  if not path then error("usage: run.lua FILE.h5 [--device D] [--only NAME]", 0) end
  if device and not neap.device():find("^" .. device:gsub("%p", "%%%0")) then
    error(("this engine runs on %s, not on %s; start neap with --device %s"):format(neap.device(), device, device), 0)
  end
  return path, only
end

-- Comparing --------------------------------------------------------------------------------------------

local function flatten(t, out)
  if type(t) ~= "table" then
    out[#out + 1] = t == true and 1 or t == false and 0 or t
    return out
  end
  for _, v in ipairs(t) do flatten(v, out) end
  return out
end

local function values(tensor)
  return flatten(tensor:totable(), {})
end

local function shape_text(t)
  return "[" .. table.concat(t.shape, ", ") .. "]"
end

--- Errors if |a - b| > absolute + relative * max |b| anywhere; the text says how much and where.
local function compare(what, got, wanted, absolute, relative)
  if shape_text(got) ~= shape_text(wanted) then
    error(("%s has shape %s, expected %s"):format(what, shape_text(got), shape_text(wanted)), 0)
  end
  local a, b = values(got), values(wanted)
  local largest, worst, at = 0, -1, 0
  for i, v in ipairs(b) do
    local difference = math.abs(a[i] - v)
    if v == v then largest = math.max(largest, math.abs(v)) end
    if a[i] == v or a[i] ~= a[i] and v ~= v then difference = 0 end
    -- NaN on one side only is worse than any number.
    if difference ~= difference then difference = math.huge end
    if difference > worst then worst, at = difference, i end
  end
  local allowed = absolute + relative * largest
  if worst > allowed then
    error(("%s is off by %g at element %d: %.9g instead of %.9g (allowed %g)"):format(what, worst, at, a[at], b[at],
      allowed), 0)
  end
end

-- Ops --------------------------------------------------------------------------------------------------

local function list_of(group)
  local list = {}
  while group and group[tostring(#list + 1)] do list[#list + 1] = group[tostring(#list + 1)] end
  return list
end

local takes_list = {cat = true, concat = true, stack = true}
local other_name = {concat = "cat"}

-- The file counts positions from 0, as PyTorch does.
local positions = {narrow = "start", select = "index"}

local function options_of(op, args)
  local position = positions[op]
  if position and args[position] and args[position] >= 0 then args[position] = args[position] + 1 end
  return next(args) and args or nil
end

--- What the file writes otherwise: where's condition is of integers, for files without a boolean type, and
--- pow's exponent is an option.
local function adapt(op, inputs, args)
  if op == "where" and inputs[1].dtype ~= "bool" then inputs[1] = inputs[1]:ne(0) end
  if op == "pow" and args.exponent then
    inputs[2], args.exponent = args.exponent, nil
  end
  return inputs
end

local function function_of(op, options)
  local fn = neap[op] or neap[other_name[op]]
  if not fn then error(("there is no op %q"):format(op), 0) end
  return function(...)
    if takes_list[op] then return fn({...}, options) end
    if not options then return fn(...) end
    local inputs = {...}
    inputs[#inputs + 1] = options
    return fn(table.unpack(inputs))
  end
end

local function check_gradients(fn, inputs, case)
  local weights = case.grad_out
  local gradients = select(2, neap.value_and_grad(function(...)
    return (fn(...) * weights):sum()
  end)(table.unpack(inputs)))
  for name, wanted in pairs(case.grad) do
    if name ~= "attributes" then
      compare("grad/" .. name, gradients[math.tointeger(tonumber(name))], wanted, 1e-5, 1e-4)
    end
  end
end

local function run_op(case)
  local op = case.attributes.op
  local args = json.decode(case.attributes.args or "{}")
  local inputs = adapt(op, list_of(case["in"]), args)
  local fn = function_of(op, options_of(op, args))
  compare("out", fn(table.unpack(inputs)), case.out, 1e-5, 1e-4)
  if case.grad and case.grad_out then check_gradients(fn, inputs, case) end
end

-- Runs -------------------------------------------------------------------------------------------------

local function without_attributes(group)
  local out = {}
  for name, v in pairs(group) do
    if name ~= "attributes" then out[name] = v end
  end
  return out
end

--- A sequence model's (batch, time, classes) as cross_entropy takes it: (batch * time, classes).
local function loss_of(name)
  local fn = neap[name]
  if not fn then error(("there is no loss %q"):format(name), 0) end
  return function(pred, target)
    if name == "cross_entropy" and pred.ndim == 3 then
      pred, target = pred:reshape {-1, pred.shape[3]}, target:reshape {-1}
    end
    return fn(pred, target)
  end
end

local function optimizer_of(text, model)
  local settings = json.decode(text)
  local make = neap.optim[settings.name]
  if not make then error(("there is no optimizer %q"):format(tostring(settings.name)), 0) end
  settings.name = nil
  settings.params = model:parameters()
  return make(settings)
end

local function check_losses(losses, wanted)
  for i, v in ipairs(values(wanted)) do
    local off = math.abs(losses[i] - v)
    if off ~= off or off > 2e-4 * math.abs(v) then
      error(("the loss of step %d is %.9g instead of %.9g"):format(i, losses[i], v), 0)
    end
  end
end

local function model_of(case)
  local a = case.attributes
  local ok, build = pcall(require, "models." .. a.model)
  if not ok then error(("there is no model %q"):format(a.model), 0) end
  local model = build(json.decode(a.config))
  model:load_state(without_attributes(case.params), {strict = true})
  return model, loss_of(a.loss), optimizer_of(a.optimizer, model)
end

--- The losses of the run, a step for each batch.
local function train(case, step)
  local losses = {}
  for i = 1, case.x.shape[1] do
    losses[i] = step(case.x:select(1, i):clone(), case.y:select(1, i):clone())
  end
  return losses
end

local function train_by_update(case)
  local model, loss, optimizer = model_of(case)
  local update = neap.update {loss = function(x, y) return loss(model(x), y) end, optimizer = optimizer}
  return model, train(case, update)
end

--- The same as a loop of one's own, which has the same bits.
local function train_by_hand(case)
  local model, loss, optimizer = model_of(case)
  local run = neap.nn.value_and_grad(model, function(x, y) return loss(model(x), y) end)
  return model, train(case, function(x, y)
    local value, grads = run(x, y)
    optimizer:step(grads)
    return value:item()
  end)
end

local function check_same_bits(losses, state, case)
  local model, same = train_by_hand(case)
  for i, v in ipairs(losses) do
    if same[i] ~= v then error(("by hand the loss of step %d is %.9g, not %.9g"):format(i, same[i], v), 0) end
  end
  for path, t in pairs(model:state()) do
    if t:tobytes() ~= state[path]:tobytes() then error(("by hand %q has other bits"):format(path), 0) end
  end
end

local function run_training(case)
  local model, losses = train_by_update(case)
  check_losses(losses, case.loss_values)
  local state = model:state()
  for path, wanted in pairs(without_attributes(case.final)) do
    if not state[path] then error(("the model has no %q"):format(path), 0) end
    compare("final/" .. path, state[path], wanted, 1e-4, 1e-3)
  end
  check_same_bits(losses, state, case)
end

-- All --------------------------------------------------------------------------------------------------

local counts = {passed = 0, failed = 0}

local function sorted_names(group)
  local names = {}
  for name in pairs(group or {}) do
    if name ~= "attributes" then names[#names + 1] = name end
  end
  table.sort(names)
  return names
end

local function run_all(group, run, only)
  for _, name in ipairs(sorted_names(group)) do
    if not only or only == name then
      local ok, err = pcall(run, group[name])
      counts[ok and "passed" or "failed"] = counts[ok and "passed" or "failed"] + 1
      if not ok then print(("FAILED %s: %s"):format(name, tostring(err))) end
    end
  end
end

local path, only = read_arguments()
local file, problem = neap.hdf5.read(path)
if not file then error(problem, 0) end
run_all(file.ops, run_op, only)
run_all(file.runs, run_training, only)
if counts.passed + counts.failed == 0 then
  error(only and ("there is no case %q in %s"):format(only, path) or path .. " has no cases", 0)
end
print(("%d passed, %d failed"):format(counts.passed, counts.failed))
os.exit(counts.failed == 0, true)
