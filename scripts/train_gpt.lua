--- A small transformer learns to write like a novel, character by character, and shows what it writes.
---
---   build/neap --memory 96MiB scripts/train_gpt.lua [--text FILE] [--out FILE.h5] [--steps N] [--batch N]
---        [--rate R] [--every N] [--layers N] [--width N] [--heads N] [--context N] [--seed N] [--resume FILE.h5]
--- The last tenth of the text is never trained on. It takes about two minutes on two cores. Exit codes: 0, 1 for
--- errors, 3 when a policy saved a checkpoint and stopped.
package.path = "./?.lua;" .. package.path
local neap = require "neap"
local gpt = require "models.gpt"

local from = require "scripts.options"
local options = from.read {
  text = "data/pride_and_prejudice.txt", out = "gpt.h5", resume = false, seed = 1,
  steps = from.at_least(1, 1200), batch = from.at_least(1, 32), rate = 3e-3, every = from.at_least(1, 250),
  layers = from.at_least(1, 4), width = from.at_least(1, 128), heads = from.at_least(1, 4),
  context = from.at_least(1, 64),
}
local CONTEXT <const> = options.context
local random = neap.data.random

-- Text -------------------------------------------------------------------------------------------------

local function read(path)
  local file <close> = assert(io.open(path, "rb"))
  return file:read "a"
end

--- Each byte of the text as its place among the different bytes, and those bytes in order.
local function encode(text)
  local seen, alphabet, code = {}, {}, {}
  for c in text:gmatch "." do seen[c] = true end
  for c in text:gmatch "\n" do seen[c] = true end
  for c in pairs(seen) do alphabet[#alphabet + 1] = c end
  table.sort(alphabet)
  for i, c in ipairs(alphabet) do code[c] = string.char(i - 1) end
  return text:gsub(".", code), alphabet, code
end

--- Windows of CONTEXT characters and the one after: sample i begins at (i - 1) * stride.
local function windows(codes, stride)
  return {
    size = math.max(0, (#codes - CONTEXT - 1) // stride + 1),
    fetch = function(_, indices)
      local parts = {}
      for n, i in ipairs(indices) do
        local first = (i - 1) * stride + 1
        parts[n] = codes:sub(first, first + CONTEXT)
      end
      local rows = neap.from_bytes(table.concat(parts), {dtype = "uint8", shape = {#parts, CONTEXT + 1}}):to "int64"
      return {x = rows:narrow(2, 1, CONTEXT), y = rows:narrow(2, 2, CONTEXT)}
    end,
  }
end

local codes, alphabet, code = encode(read(options.text))
if #codes < 20 * (CONTEXT + 1) then
  error(("%s has %d characters, expected at least %d"):format(options.text, #codes, 20 * (CONTEXT + 1)), 0)
end
local border <const> = #codes * 9 // 10
local train_codes, test_codes = codes:sub(1, border), codes:sub(border + 1)

local function loader(dataset, settings)
  settings.dataset, settings.batch_size = dataset, options.batch
  return neap.data.loader(settings)
end

-- Training ---------------------------------------------------------------------------------------------

neap.manual_seed(options.seed)
local model = gpt {
  vocab = #alphabet, d = options.width, heads = options.heads, layers = options.layers, context = CONTEXT,
}

--- Rises over the first steps, then falls along half a cosine to a twentieth.
local function rate(step)
  return options.rate * math.min(1, step / 100) * (0.525 + 0.475 * math.cos(math.pi * step / options.steps))
end

-- scores: (batch, context, alphabet), target: (batch, context)
local function loss(scores, target)
  return neap.cross_entropy(scores:reshape {-1, scores.shape[3]}, target:reshape {-1})
end

local test = loader(windows(test_codes, CONTEXT), {})
local trainer = neap.trainer {
  model = model, loss = loss, seed = options.seed, clip_norm = 1,
  loader = loader(windows(train_codes, 1), {shuffle = true, seed = options.seed}),
  optimizer = neap.optim.adamw {lr = rate(1), betas = {0.9, 0.99}, weight_decay = 0.1},
  policy = neap.policy.chain {neap.policy.micro_batch {exact = "bits"}, neap.policy.checkpoint_and_stop()},
  checkpoint = {path = options.out, keep = 1},
}
trainer:on("oom", function(_, event)
  print(("out of memory: %s; the policy answers %s"):format(event.message, event.answer))
end)

-- Writing ----------------------------------------------------------------------------------------------

local chances = neap.compile(function(tokens) -- tokens: (1, context) -> (context, alphabet)
  return model(tokens):select(1, 1):softmax {dim = 2}
end)

local function pick(probabilities, u)
  for i, p in ipairs(probabilities) do
    u = u - p
    if u < 0 then return i end
  end
  return #probabilities
end

--- `length` characters that follow the first ones of the unseen text, each drawn by its probability.
local function write(length)
  local seen, out = test_codes:sub(1, CONTEXT), {}
  for n = 1, length do
    local tokens = neap.from_bytes(seen, {dtype = "uint8", shape = {1, CONTEXT}}):to "int64"
    local u = (random.at(options.seed, n) >> 11) * 0x1p-53
    local i = pick(chances(tokens):select(1, CONTEXT):totable(), u)
    out[n] = alphabet[i]
    seen = seen:sub(2) .. code[alphabet[i]]
  end
  return table.concat(out)
end

local started = neap.clock()
local function report(step)
  print(("step %d, %.0f s: validation loss %.4f nats a character"):format(step, neap.clock() - started,
    trainer:evaluate(test).loss))
  print(("  " .. write(200):gsub("\n", "\n  ")))
end

trainer:on("step", function(t, event)
  t.optimizer.lr = rate(event.step + 1)
  if event.step % options.every == 0 and event.step < options.steps then report(event.step) end
end)

if options.resume then assert(trainer:resume(options.resume)) end
print(("%d characters, %d different ones; %d tokens a step"):format(#codes, #alphabet, options.batch * CONTEXT))
trainer:fit {steps = options.steps}
report(trainer.steps_done)
print(neap.memory_summary())
print("the checkpoint is " .. options.out)
