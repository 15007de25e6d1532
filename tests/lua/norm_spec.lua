local neap = require "neap"
local expect = require "support.expect"
local bn_net = require "models.bn_net"
local nn = neap.nn

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

local function update_of(layer)
  return neap.update {
    loss = function(x) return layer(x):square():sum() end, optimizer = neap.optim.sgd {params = layer, lr = 0.1},
  }
end

describe("nn.BatchNorm1d", function()
  -- Two channels of four samples: means 2.5 and 0, unbiased variances 5 / 3 and 4 / 3.
  local x = neap.tensor {{1, -1}, {2, 1}, {3, 1}, {4, -1}}

  it("normalizes by the batch in training, and moves its running statistics", function()
    local layer = nn.BatchNorm1d(2, {momentum = 0.5})
    local y = layer(x)
    expect.near_all({0, 0}, y:mean(1), 1e-5)
    expect.near_all({1, 1}, y:square():mean(1), 1e-4)
    expect.near_all({1.25, 0}, layer.running_mean)
    expect.near_all({0.5 + 5 / 6, 0.5 + 2 / 3}, layer.running_var, 1e-6)
  end)

  it("normalizes by the running statistics in evaluation", function()
    local layer = nn.BatchNorm1d(2, {eps = 0}):eval()
    layer:load_state {
      weight = neap.tensor {2, 1}, bias = neap.tensor {0, 5}, running_mean = neap.tensor {1, 0},
      running_var = neap.tensor {4, 1},
    }
    expect.near_all({1, 4}, layer(neap.tensor {{2, -1}}))
    expect.near_all({1, 0}, layer.running_mean)
  end)

  it("takes sequences, too", function()
    local layer = nn.BatchNorm1d(3, {affine = false})
    assert.same({2, 3, 5}, layer(neap.rand(2, 3, 5)).shape)
    assert.equal(0, #layer:parameters())
  end)

  it("knows the batch alone when it tracks nothing", function()
    local layer = nn.BatchNorm1d(2, {track_running_stats = false}):eval()
    assert.is_nil(layer:state().running_mean)
    expect.near_all({0, 0}, layer(x):mean(1), 1e-5)
  end)

  it("takes means over all batches without momentum", function()
    local layer = nn.BatchNorm1d(2, {momentum = false})
    for i = 1, 3 do layer(neap.tensor {{i, 0}, {i + 1, 2 * i}}) end
    expect.near_all({2.5, 2}, layer.running_mean)
    expect.near_all({0.5, (2 + 8 + 18) / 3}, layer.running_var)
    assert.equal(3, layer:state().num_batches_tracked:item())
    expect.fails("INVALID", {"momentum", '"x"', "from 0 to 1"}, nn.BatchNorm1d, 2, {momentum = "x"})
  end)

  it("writes its statistics when an update commits, once", function()
    local layer = nn.BatchNorm1d(2, {momentum = 0.5})
    local update = update_of(layer)
    update(x)
    expect.near_all({1.25, 0}, layer.running_mean)
    update(x)
    expect.near_all({1.875, 0}, layer.running_mean)
  end)

  it("takes statistics of micro-batches in parts, which is not exact", function()
    local layer = nn.BatchNorm1d(2, {momentum = 1})
    local update = update_of(layer)
    update:start_with(2)
    update(x)
    assert.is_false(update:plan().exact)
    expect.near_all({2.5, 0}, layer.running_mean)
    expect.near_all({0.5, 2}, layer.running_var) -- the mean of the halves' variances
  end)

  it("stays in evaluation when frozen", function()
    local layer = nn.BatchNorm1d(2)
    layer:freeze()
    layer(x)
    expect.near_all({0, 0}, layer.running_mean)
  end)

  it("refuses what has no variance, and other shapes", function()
    raises("SHAPE", function() nn.BatchNorm1d(2)(neap.ones(1, 2)) end, "1 value a channel")
    raises("SHAPE", function() nn.BatchNorm1d(2)(neap.ones(2, 3)) end, "[2, 3]")
    raises("SHAPE", function() nn.BatchNorm1d(2)(neap.ones(2, 2, 2, 2)) end, "2 or 3 dimensions")
    raises("SHAPE", function() nn.BatchNorm2d(2)(neap.ones(2, 2)) end, "4 dimensions")
    raises("INVALID", function() nn.BatchNorm2d(2, {momentum = 2}) end, "momentum")
  end)
end)

describe("normalization within a sample", function()
  it("of the last dimensions brings them to mean 0 and variance 1", function()
    local y = nn.LayerNorm({2, 3})(neap.rand(4, 2, 3)):reshape(4, 6)
    expect.near_all({0, 0, 0, 0}, y:mean(2), 1e-5)
    expect.near_all({1, 1, 1, 1}, y:square():mean(2), 1e-2)
  end)

  it("scales and shifts by what it learned", function()
    local layer = nn.LayerNorm(2, {eps = 0})
    layer:load_state {weight = neap.tensor {2, 3}, bias = neap.tensor {1, 0}}
    expect.near_all({-1, 3}, layer(neap.tensor {{4, 6}}))
  end)

  it("of root mean squares leaves the mean", function()
    local layer = nn.RMSNorm(2)
    expect.near_all({0.6 * math.sqrt(2), 0.8 * math.sqrt(2)}, layer(neap.tensor {{3, 4}}), 1e-5)
    assert.equal(1, #layer:parameters())
  end)

  it("of groups and instances looks at channels of a sample", function()
    local x = neap.rand(2, 4, 3, 3)
    expect.near_all({0, 0, 0, 0}, nn.GroupNorm(2, 4)(x):reshape(4, 18):mean(2), 1e-5)
    expect.near_all({0, 0, 0, 0, 0, 0, 0, 0}, nn.InstanceNorm2d(4)(x):reshape(8, 9):mean(2), 1e-5)
    assert.equal(2, #nn.InstanceNorm1d(4, {affine = true}):parameters())
  end)

  it("has parameters only when asked", function()
    assert.equal(0, #nn.LayerNorm(3, {elementwise_affine = false}):parameters())
    assert.equal(1, #nn.LayerNorm(3, {bias = false}):parameters())
    assert.equal(0, #nn.GroupNorm(1, 2, {affine = false}):parameters())
  end)

  it("refuses shapes that do not fit", function()
    raises("SHAPE", function() nn.LayerNorm(3)(neap.ones(2, 4)) end, "[2, 4]", "[3]")
    raises("INVALID", function() nn.LayerNorm {} end, "empty")
    raises("INVALID", function() nn.GroupNorm(3, 4) end, "groups is 3")
    raises("SHAPE", function() nn.GroupNorm(2, 4)(neap.ones(2, 3, 5)) end, "3 channels", "2 groups")
    raises("SHAPE", function() nn.InstanceNorm1d(2)(neap.ones(2, 3, 5)) end, "expected 2 channels")
  end)
end)

describe("models.bn_net", function()
  it("gives a score for each class", function()
    assert.same({2, 4}, bn_net {channels = 3, width = 6, classes = 4}(neap.rand(2, 3, 8, 8)).shape)
  end)

  it("refuses bad configurations", function()
    assert.has_error(function() bn_net {channels = 3, width = 6} end)
    assert.has_error(function() bn_net {channels = 0, width = 6, classes = 2} end)
  end)
end)
