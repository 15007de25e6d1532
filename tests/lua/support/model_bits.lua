--- Trains every model for two updates and prints a line for each: its name and a number that every bit of its
--- parameters goes into.
---   build/neap --threads N tests/lua/support/model_bits.lua [MICRO_BATCH]
--- With a micro-batch (whole slabs of 8) only the models whose samples do not depend on each other are run.
package.path = "./?.lua;" .. package.path
local neap = require "neap"
local random = neap.data.random

local function digest(model)
  local paths, state, key = {}, model:state(), 0
  for path in pairs(state) do paths[#paths + 1] = path end
  table.sort(paths)
  for _, path in ipairs(paths) do
    for _, v in ipairs(state[path]:reshape {-1}:totable()) do
      key = random.mix(key ~ string.unpack("i8", string.pack("d", v)))
    end
  end
  return key
end

local micro = tonumber(arg[1])

local function line(name, model, inputs, loss, whole)
  neap.manual_seed(1) -- the same first values, whichever models were run before
  if micro and whole then return end
  local update = neap.update {
    loss = loss, clip_norm = 1, grain = 8, optimizer = neap.optim.adamw {params = model:parameters(), lr = 1e-2},
  }
  if micro then update:start_with(micro) end
  for _ = 1, 2 do update(table.unpack(inputs)) end
  print(("%s %016x"):format(name, digest(model)))
end

local function classes(n, count)
  local list = {}
  for i = 1, n do list[i] = i * 7 % count end
  return neap.tensor(list, {dtype = "int64"})
end

local function classifier(name, config, x, whole)
  local model = require("models." .. name)(config)
  line(name, model, {x, classes(x.shape[1], 4)}, function(a, b) return neap.cross_entropy(model(a), b) end, whole)
end

neap.manual_seed(1)
classifier("mlp", {sizes = {40, 96, 4}}, neap.randn(64, 40))
classifier("simple_cnn", {channels = 1, size = 16, classes = 4, width = {8, 8}, hidden = 32}, neap.randn(24, 1, 16, 16))
classifier("bn_net", {channels = 3, width = 8, classes = 4}, neap.randn(24, 3, 16, 16), true)
classifier("resnet", {depth = 18, classes = 4, width = 4}, neap.randn(16, 3, 16, 16), true)

local coder = require "models.autoencoder" {sizes = {64, 48, 8}}
line("autoencoder", coder, {neap.rand(64, 64)}, function(x) return neap.mse_loss(coder(x):sigmoid(), x) end)

local gpt = require "models.gpt" {vocab = 11, d = 64, heads = 4, layers = 2, context = 32}
line("gpt", gpt, {classes(24 * 32, 11):reshape {24, 32}}, function(x)
  return neap.cross_entropy(gpt(x):reshape {-1, 11}, x:reshape {-1})
end)

local lstm = require "models.lstm_lm" {vocab = 11, d = 48, layers = 2}
line("lstm_lm", lstm, {classes(24 * 16, 11):reshape {24, 16}}, function(x)
  return neap.cross_entropy((lstm(x)):reshape {-1, 11}, x:reshape {-1})
end)

local gan = require "models.gan" {latent = 8, channels = 1, size = 16, width = 4}
local real, fake = neap.ones(16), neap.zeros(16)
line("gan", gan, {neap.rand(16, 1, 16, 16), neap.randn(16, 8)}, function(x, z)
  local judge = neap.binary_cross_entropy_with_logits
  return judge(gan.critic(x), real) + judge(gan(z), fake)
end, true)

local player = require "models.actor_critic" {observations = 4, actions = 2}
line("actor_critic", player, {neap.randn(256, 4)}, function(x)
  local scores, values = player(x)
  return scores:logsumexp {dim = 2}:mean() + (values - 1):pow(2):mean()
end)
