local neap = require "neap"
local actor_critic, autoencoder = require "models.actor_critic", require "models.autoencoder"
local gan, resnet = require "models.gan", require "models.resnet"

local function count(model)
  local tensors, numbers = 0, 0
  for _, tensor in model:named_parameters() do
    local n = 1
    for _, size in ipairs(tensor.shape) do n = n * size end
    tensors, numbers = tensors + 1, numbers + n
  end
  return {tensors, numbers}
end

local function learns(model, inputs, loss, steps)
  local update = neap.update {
    loss = loss, optimizer = neap.optim.adam {params = model:parameters(), lr = 1e-2},
  }
  local first, last = update(table.unpack(inputs))
  for _ = 2, steps do last = update(table.unpack(inputs)) end
  assert.is_true(last < first * 0.8, ("%g, then %g"):format(first, last))
end

local function refuses(make, good, changes)
  for _, change in ipairs(changes) do
    local bad = {}
    for name, v in pairs(good) do bad[name] = v end
    for name, v in pairs(change) do bad[name] = v end
    local ok, message = pcall(make, bad)
    assert.is_false(ok)
    assert.truthy(tostring(message):find(next(change), 1, true), message)
  end
end

describe("models.resnet", function()
  -- The numbers of parameters of torchvision's resnet18 and resnet34 with ten classes and a 3x3 stem.
  it("is as large as it is known to be", function()
    assert.same({62, 11173962}, count(resnet {depth = 18, classes = 10}))
    collectgarbage()
    assert.same({110, 21282122}, count(resnet {depth = 34, classes = 10}))
    collectgarbage()
  end)

  it("has torchvision's paths", function()
    local state = resnet {depth = 18, classes = 3, width = 2}:state()
    for path, shape in pairs {
      ["conv1.weight"] = {2, 3, 3, 3}, ["layer1.0.conv1.weight"] = {2, 2, 3, 3}, ["layer4.1.bn2.running_var"] = {16},
      ["layer2.0.downsample.0.weight"] = {4, 2, 1, 1}, ["layer2.0.downsample.1.bias"] = {4}, ["fc.weight"] = {3, 16},
    } do
      assert.same(shape, state[path] and state[path].shape, path)
    end
    assert.is_nil(state["layer1.0.downsample.0.weight"])
  end)

  it("halves images three times and learns", function()
    neap.manual_seed(1)
    local model = resnet {depth = 18, classes = 4, channels = 1, width = 2}
    local x, y = neap.randn(8, 1, 9, 9), neap.tensor({0, 1, 2, 3, 0, 1, 2, 3}, {dtype = "int64"})
    assert.same({8, 4}, model(x).shape)
    learns(model, {x, y}, function(a, b) return neap.cross_entropy(model(a), b) end, 8)
  end)

  it("refuses bad configurations", function()
    refuses(resnet, {depth = 18, classes = 10}, {{depth = 50}, {classes = 0}, {width = 1.5}, {channels = "grey"}})
  end)
end)

describe("models.autoencoder", function()
  it("brings the input through a narrow code", function()
    neap.manual_seed(1)
    local model = autoencoder {sizes = {12, 8, 2}}
    local x = neap.rand(16, 12)
    assert.same({16, 2}, model.encoder(x).shape)
    assert.same({16, 12}, model(x).shape)
    assert.same({8, 12 * 8 + 8 + 8 * 2 + 2 + 2 * 8 + 8 + 8 * 12 + 12}, count(model))
    learns(model, {x}, function(a) return neap.mse_loss(model(a):sigmoid(), a) end, 60)
  end)

  it("refuses bad configurations", function()
    refuses(autoencoder, {}, {{sizes = {3}}, {sizes = "wide"}, {sizes = {3, 0}}})
  end)
end)

describe("models.gan", function()
  local config = {latent = 4, channels = 1, size = 8, width = 2}

  it("draws images, which its critic scores", function()
    neap.manual_seed(1)
    local model = gan(config)
    local z = neap.randn(6, 4)
    local images = model.generator(z)
    assert.same({6, 1, 8, 8}, images.shape)
    assert.is_true(images:amin():item() > 0 and images:amax():item() < 1)
    assert.same({6}, model.critic(images).shape)
    assert.same({6}, model(z).shape)
  end)

  it("learns in each of its parts", function()
    neap.manual_seed(1)
    local model = gan(config)
    local x, z, real, fake = neap.rand(6, 1, 8, 8), neap.randn(6, 4), neap.ones(6), neap.zeros(6)
    local judge = neap.binary_cross_entropy_with_logits
    learns(model.critic, {x, z}, function(a, b)
      return judge(model.critic(a), real) + judge(model.critic(model.generator(b):detach()), fake)
    end, 40)
    learns(model.generator, {z}, function(b) return judge(model(b), real) end, 40)
  end)

  it("refuses bad configurations", function()
    refuses(gan, config, {{latent = 0}, {size = 10}, {width = "wide"}})
  end)
end)

describe("models.actor_critic", function()
  it("scores actions and values what it sees", function()
    neap.manual_seed(1)
    local model = actor_critic {observations = 3, actions = 2, hidden = {8}}
    local x = neap.randn(5, 3)
    local scores, values = model(x)
    assert.same({5, 2}, scores.shape)
    assert.same({5}, values.shape)
    assert.same({8, 3 * 8 + 8 + 8 * 2 + 2 + 3 * 8 + 8 + 8 + 1}, count(model))
    learns(model, {x}, function(a)
      local s, v = model(a)
      return s:pow(2):mean() + (v - 1):pow(2):mean()
    end, 30)
  end)

  it("refuses bad configurations", function()
    refuses(actor_critic, {observations = 3, actions = 2}, {{observations = 0}, {actions = 2.5}, {hidden = {}},
      {hidden = {8, -1}}})
  end)
end)

describe("models.lstm_lm", function()
  local lstm_lm = require "models.lstm_lm"

  it("learns what comes next", function()
    local model, tokens = lstm_lm {vocab = 5, d = 16, layers = 2}, {}
    for i = 1, 8 * 13 do tokens[i] = i % 5 end
    local text = neap.tensor(tokens, {dtype = "int64"}):reshape {8, 13}
    learns(model, {text:narrow(2, 1, 12), text:narrow(2, 2, 12)}, function(x, y)
      return neap.cross_entropy((model(x)):reshape {-1, 5}, y:reshape {-1})
    end, 30)
  end)

  it("goes on where it ended when it is given its state", function()
    local model = lstm_lm {vocab = 5, d = 8, layers = 1}
    local text = neap.tensor({{0, 1, 2, 3, 4, 0}}, {dtype = "int64"})
    local all = model(text)
    local _, h, c = model(text:narrow(2, 1, 3))
    local rest = model(text:narrow(2, 4, 3), h, c)
    assert.same(all:narrow(2, 4, 3):totable(), rest:totable())
  end)

  it("refuses sizes that are none", function()
    refuses(lstm_lm, {vocab = 5, d = 8, layers = 1}, {{vocab = 0}, {d = 2.5}, {layers = "two"}})
  end)
end)

describe("Models", function()
  it("list their layers in the order in which they are used", function()
    for name, case in pairs {
      resnet = {
        {depth = 18, classes = 10, width = 4}, {"conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight"},
      },
      autoencoder = {{sizes = {4, 3, 2}}, {"encoder.fc1.weight"}},
      gan = {{latent = 4, channels = 1, size = 28, width = 2}, {"generator.fc.weight"}},
      actor_critic = {{observations = 4, actions = 2}, {"actor.fc1.weight"}},
    } do
      local paths = {}
      for path in require("models." .. name)(case[1]):named_parameters() do paths[#paths + 1] = path end
      assert.same(case[2], {table.unpack(paths, 1, #case[2])})
    end
  end)
end)
