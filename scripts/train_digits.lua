--- Learns handwritten digits inside a memory budget that the whole batch does not fit.
---
---   build/neap --memory 32MiB scripts/train_digits.lua [--data FILE.h5] [--out FILE.h5] [--epochs N]
---                                            [--batch N] [--resume FILE.h5] [--journal FILE.jsonl]
--- Exit codes: 0, 1 for errors, 3 when a policy saved a checkpoint and stopped.
package.path = "./?.lua;" .. package.path
local neap = require "neap"
local simple_cnn = require "models.simple_cnn"

local from = require "scripts.options"
local options = from.read {
  data = "data/mnist10k.h5", out = "digits.h5", epochs = from.at_least(1, 45), batch = from.at_least(1, 512),
  resume = false, journal = false,
}

--- Bytes (batch, 28, 28) to images (batch, 1, 28, 28) in [0, 1].
local function to_images(batch)
  local n, height, width = table.unpack(batch.x.shape)
  batch.x = batch.x:reshape({n, 1, height, width}):to "fp32" * (1 / 255)
  batch.y = batch.y:to "int64"
end

local PARTS <const>, SHIFT <const> = 32, 2 -- of a batch, pixels

--- The same, with each part of the batch shifted by up to SHIFT pixels, so that the network learns digits and
--- not their places. The shifts depend on epoch and place alone, whatever memory there is.
local function to_shifted_images(batch)
  local key = neap.data.random.key(batch.epoch, batch.position)
  local padded, parts, side = batch.x:pad {pad = {SHIFT, SHIFT, SHIFT, SHIFT}}, {}, batch.x.shape[3]
  for i = 1, PARTS do
    local first, last = (i - 1) * batch.size // PARTS + 1, i * batch.size // PARTS
    if last >= first then
      local draw = neap.data.random.at(key, i) & math.maxinteger
      local down, right = draw % (2 * SHIFT + 1) + 1, draw // 1024 % (2 * SHIFT + 1) + 1
      local part = padded:narrow(1, first, last - first + 1)
      parts[#parts + 1] = part:narrow(2, down, side):narrow(3, right, side)
    end
  end
  batch.x = neap.cat(parts, {dim = 1})
  to_images(batch)
end

local function loader(part, settings)
  settings.dataset = neap.data.hdf5(options.data, {x = part .. "/images", y = part .. "/labels"})
  settings.batch_size = options.batch
  return neap.data.loader(settings)
end

--- What the user asked for, and what there is.
local function print_request(trainer)
  local need, budget = trainer:predict_memory().memory.peak, neap.memory().budget
  print(("a batch of %d needs %s; the budget is %s"):format(options.batch, neap.format_bytes(need),
    budget and neap.format_bytes(budget) or "not set"))
end

local function print_answer(_, event)
  print(("out of memory: %s; the policy answers %s"):format(event.message, event.answer))
  if event.exact == "bits" then print "that does not change a bit of the result" end
end

local RATE <const> = 6e-3

--- Rises over the first steps, then falls along half a cosine.
local function rate(step, steps)
  return RATE * math.min(1, step / 8) * (0.51 + 0.49 * math.cos(math.pi * step / steps))
end

local train = loader("train", {shuffle = true, seed = 1, transform = to_shifted_images})
local test = loader("test", {transform = to_images})
local trainer = neap.trainer {
  model = simple_cnn {channels = 1, size = 28, classes = 10, width = {8, 16}, hidden = 64},
  loss = neap.cross_entropy, loader = train, seed = 1,
  optimizer = neap.optim.adamw {lr = rate(1, options.epochs), weight_decay = 0.05},
  policy = neap.policy.chain {neap.policy.micro_batch {exact = "bits"}, neap.policy.checkpoint_and_stop()},
  checkpoint = {path = options.out, keep = 1},
  journal = options.journal or nil,
}
trainer:on("oom", print_answer)
trainer:on("step", function(t, event)
  t.optimizer.lr = rate(event.step + 1, options.epochs * train:batches())
end)

if options.resume then
  local ok, err = trainer:resume(options.resume)
  if not ok then error(err, 0) end
end
print_request(trainer)
trainer:fit {epochs = options.epochs}
print(neap.memory_summary())
print("the checkpoint is " .. options.out)
print(("test accuracy %.4f"):format(trainer:evaluate(test).accuracy))
