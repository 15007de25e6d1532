local neap = require "neap"
local expect = require "support.expect"

local GB <const> = 1e9

local function cnn()
  return require "models.simple_cnn" {channels = 3, size = 64, classes = 10, width = {64, 128}, hidden = 64}
end

describe("memory is known before it is used:", function()
  it("a network that needs hundreds of gigabytes answers in less than 2 seconds, and takes nothing", function()
    local model = cnn()
    model:parameters()
    local program = neap.compile(function(x) return model(x) end)
    local update = neap.update {
      loss = function(x, y) return neap.cross_entropy(model(x), y) end,
      optimizer = neap.optim.sgd {params = model:parameters(), lr = 0.1, momentum = 0.9},
    }
    collectgarbage()
    local before, t0 = neap.memory().in_use, neap.clock()
    local inference = program:memory {131072, 3, 64, 64}
    local training = update:memory({131072, 3, 64, 64}, {131072, dtype = "int64"})
    local seconds = neap.clock() - t0
    assert.is_true(inference.peak > 450 * GB and inference.peak < 550 * GB)
    assert.is_true(training.peak > inference.peak)
    assert.is_true(seconds < 2, ("took %.2f s"):format(seconds))
    -- The optimizer's moments are the only thing that an update holds before it runs.
    assert.is_true(neap.memory().in_use - before < 200e6)
  end)

  it("a shape stands in for a tensor wherever nothing is run", function()
    local program = neap.compile(function(x) return x:relu() end)
    assert.are.equal(program:memory({8, 4}).peak, program:memory(neap.zeros(8, 4)).peak)
    expect.fails("INVALID", {"input 1", "expected a tensor"}, program, {8, 4})
    expect.fails("INVALID", {"dimension 2", "1.5"}, program.memory, program, {8, 1.5})
    expect.fails("SHAPE", {"-3"}, program.memory, program, {-3})
    expect.fails("DTYPE", {"fp13"}, program.memory, program, {3, dtype = "fp13"})
  end)

  it("sizes whose bytes overflow are refused by name", function()
    local program = neap.compile(function(x) return x:relu() end)
    expect.fails("RANGE", {"4611686018427387904"}, program.memory, program, {1 << 62, 8})
  end)
end)

describe("module:summary", function()
  it("takes a dtype with the shape, and takes no memory for the input", function()
    local model = neap.nn.Embedding(13, 16)
    model:parameters()
    local before = neap.memory().in_use
    local printed = _G.print
    _G.print = function() end -- luacheck: ignore 122
    local ok, text = pcall(model.summary, model, {1 << 20, 64, dtype = "int64"})
    _G.print = printed -- luacheck: ignore 122
    assert.is_true(ok, tostring(text))
    assert.truthy(text:find("[1048576, 64, 16]", 1, true), text)
    assert.are.equal(before, neap.memory().in_use)
  end)
end)
