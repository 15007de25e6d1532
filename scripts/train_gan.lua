--- Learns to draw digits: a generator against a critic, each with an update of its own, reserved together.
---
---   build/neap --memory 64MiB scripts/train_gan.lua [--data FILE.h5] [--out FILE.png] [--epochs N] [--steps N]
---        [--batch N] [--rate R] [--latent N] [--width N] [--seed N] [--save FILE.h5]
--- After each epoch a sheet of digits is drawn from the same numbers. --steps ends a run early; 0: not.
--- Exit codes: 0, 1 for errors.
package.path = "./?.lua;" .. package.path
local neap = require "neap"
local gan = require "models.gan"
local png = require "scripts.png"

local from = require "scripts.options"
local options = from.read {
  data = "data/mnist10k.h5", out = "digits.png", save = false, seed = 1,
  epochs = from.at_least(1, 10), steps = 0, batch = from.at_least(1, 64), rate = 3e-4,
  latent = from.at_least(1, 32), width = from.at_least(1, 16),
}
local LATENT <const>, BATCH <const> = options.latent, options.batch

neap.manual_seed(options.seed)
local model = gan {latent = LATENT, channels = 1, size = 28, width = options.width}
local real, fake = neap.full({BATCH}, 0.9), neap.zeros(BATCH) -- 0.9: a critic that is never sure learns on

local function judge(images, truth)
  return neap.binary_cross_entropy_with_logits(model.critic(images), truth)
end

local function adam(part, rate)
  return neap.optim.adam {params = part:parameters(), lr = rate, betas = {0.5, 0.999}}
end

-- x: (batch, 1, 28, 28), z: (batch, latent)
local critic = neap.update {
  loss = function(x, z) return judge(x, real) + judge(model.generator(z):detach(), fake) end,
  optimizer = adam(model.critic, 2 * options.rate), -- ahead of the generator (Heusel et al. 2017)
}
local generator = neap.update {
  loss = function(z) return judge(model.generator(z), real) end,
  optimizer = adam(model.generator, options.rate),
}
local both = neap.group {critic, generator}

local loader = neap.data.loader {
  dataset = neap.data.hdf5(options.data, {x = "train/images"}),
  batch_size = BATCH, shuffle = true, seed = options.seed, drop_last = true,
  transform = function(batch) batch.x = batch.x:reshape {BATCH, 1, 28, 28}:to "fp32" * (1 / 255) end,
}

local same = neap.randn(64, LATENT)
local draw = neap.compile(function(z) return model.generator(z):reshape {z.shape[1], 28, 28} end)

local function write_sheet()
  model:eval()
  local images = draw(same):totable()
  model:train()
  local file <close> = assert(io.open(options.out, "wb"))
  assert(file:write(png.encode(png.sheet(images, 8))))
end

local steps, started = 0, neap.clock()
local function finished()
  return options.steps > 0 and steps >= options.steps
end

--- Mean losses of both over an epoch, or over what --steps leaves of it.
local function learn(epoch)
  local sums, n = {0.0, 0.0}, 0
  for batch in loader:epoch(epoch) do
    local losses = both({batch.x, neap.randn(BATCH, LATENT)}, {neap.randn(BATCH, LATENT)})
    for i = 1, 2 do sums[i] = sums[i] + losses[i] end
    n, steps = n + 1, steps + 1
    if finished() then break end
  end
  return sums[1] / n, sums[2] / n
end

for epoch = 1, options.epochs do
  local c, g = learn(epoch)
  write_sheet()
  print(("epoch %d, %d steps, %.0f s: critic %.4f, generator %.4f"):format(epoch, steps, neap.clock() - started, c, g))
  if finished() then break end
end
if options.save then assert(neap.save(options.save, {model = model:state()})) end
print("the digits are in " .. options.out)
