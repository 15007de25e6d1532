--- Learns handwritten digits inside a memory budget that the whole batch does not fit.
---
---   build/neap --memory 48MiB scripts/train_digits.lua [--data FILE.h5] [--out FILE.h5] [--epochs N]
---                                                      [--batch N] [--resume FILE.h5] [--journal FILE]
--- Exit codes: 0, 1 for errors, 3 when a policy saved a checkpoint and stopped.
package.path = "./?.lua;" .. package.path
local neap = require "neap"
local simple_cnn = require "models.simple_cnn"
local report = require "neap.report"

local options = {data = "data/mnist10k.h5", out = "digits.h5", epochs = "6", batch = "512", resume = "", journal = ""}

local function read_arguments()
  local i = 1
  while i <= #arg do
    local name = arg[i]:match "^%-%-(%w+)$"
    if not options[name or ""] then error(("there is no option %q"):format(arg[i]), 0) end
    if not arg[i + 1] then error(("the option --%s needs a value"):format(name), 0) end
    options[name] = arg[i + 1]
    i = i + 2
  end
  for _, name in ipairs {"epochs", "batch"} do
    local n = math.tointeger(tonumber(options[name]))
    if not n or n < 1 then error(("--%s is %q, expected a number of at least 1"):format(name, options[name]), 0) end
    options[name] = n
  end
end

--- Bytes to images of one channel in [0, 1].
local function to_images(batch)
  local n, height, width = table.unpack(batch.x.shape)
  batch.x = batch.x:to "fp32":reshape {n, 1, height, width} * (1 / 255)
  batch.y = batch.y:to "int64"
  return batch
end

local function loader(part, settings)
  settings.dataset = neap.data.hdf5(options.data, {x = part .. "/images", y = part .. "/labels"})
  settings.batch_size, settings.transform = options.batch, to_images
  return neap.data.loader(settings)
end

--- What the user asked for, and what there is.
local function print_request(trainer)
  local p, budget = trainer:predict_memory(), neap.memory().budget
  print(("a batch of %d needs %s"):format(options.batch, report.bytes(p.memory.peak)))
  print("the budget is " .. (budget and report.bytes(budget) or "not set"))
end

local function print_answer(_, event)
  print(("out of memory: %s; the policy answers %s"):format(event.message, event.answer))
  if event.exact == "bits" then print("which does not change a bit of the result") end
end

read_arguments()
local train = loader("train", {shuffle = true, seed = 1})
local test = loader("test", {})
local model = simple_cnn {channels = 1, size = 28, classes = 10, width = {16, 32}, hidden = 64}

local trainer = neap.trainer {
  model = model, loss = neap.cross_entropy, loader = train, seed = 1,
  optimizer = neap.optim.adamw {lr = 2e-3, weight_decay = 0.05},
  policy = neap.policy.chain {neap.policy.micro_batch(), neap.policy.checkpoint_and_stop()},
  checkpoint = {path = options.out, keep = 1},
  journal = options.journal ~= "" and options.journal or nil,
}
trainer:on("oom", print_answer)

if options.resume ~= "" then
  local ok, err = trainer:resume(options.resume)
  if not ok then error(err, 0) end
end
print_request(trainer)
trainer:on("epoch", function(t, event)
  print(("epoch %d: loss %.4f, %.0f samples/s"):format(event.epoch, event.loss, event.samples_per_second))
  -- The rate falls to a third over the last half, where the noise of the steps would show.
  t.optimizer.lr = event.epoch * 2 < options.epochs and 2e-3 or 7e-4
end)
trainer:fit {epochs = options.epochs}
print(neap.memory_summary())
print("checkpoint " .. options.out)
print(("test accuracy %.4f"):format(trainer:evaluate(test).accuracy))
