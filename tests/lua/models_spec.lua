local neap = require "neap"
local expect = require "support.expect"
local mlp, simple_cnn = require "models.mlp", require "models.simple_cnn"

local function paths(model)
  local list = {}
  for path, tensor in model:named_parameters() do
    list[#list + 1] = path .. " " .. table.concat(tensor.shape, "x")
  end
  return list
end

describe("models.mlp", function()
  it("has the reference's paths and shapes", function()
    assert.same({"fc1.weight 16x12", "fc1.bias 16", "fc2.weight 5x16", "fc2.bias 5"},
                paths(mlp {sizes = {12, 16, 5}, activation = "tanh"}))
  end)

  it("applies its activation between layers, and none after the last", function()
    local net = mlp {sizes = {1, 1, 1}, activation = "relu"}
    net:load_state {
      ["fc1.weight"] = neap.tensor {{1}}, ["fc1.bias"] = neap.tensor {0},
      ["fc2.weight"] = neap.tensor {{-2}}, ["fc2.bias"] = neap.tensor {0},
    }
    expect.near_all({-6, 0}, net(neap.tensor {{3}, {-3}}))
  end)

  it("refuses bad configurations", function()
    assert.has_error(function() mlp {sizes = {3}} end)
    assert.has_error(function() mlp {sizes = {3, 4}, activation = "swoosh"} end)
  end)
end)

describe("models.simple_cnn", function()
  local config = {channels = 1, size = 12, classes = 10, width = {4, 8}, hidden = 16}

  it("has the reference's paths and shapes", function()
    assert.same({
      "conv1.weight 4x1x3x3", "conv1.bias 4", "conv2.weight 8x4x3x3", "conv2.bias 8", "fc1.weight 16x512",
      "fc1.bias 16", "fc2.weight 10x16", "fc2.bias 10",
    }, paths(simple_cnn(config)))
  end)

  it("gives a score for each class", function()
    assert.same({3, 10}, simple_cnn(config)(neap.zeros(3, 1, 12, 12)).shape)
  end)

  it("refuses bad configurations", function()
    for _, change in ipairs {{size = 4}, {channels = 0}, {width = {4}}, {classes = "ten"}} do
      local bad = {}
      for name, v in pairs(config) do bad[name] = v end
      for name, v in pairs(change) do bad[name] = v end
      assert.has_error(function() simple_cnn(bad) end)
    end
  end)
end)
