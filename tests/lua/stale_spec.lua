local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

local x = neap.tensor {1, 1}

--- A program used once; after `change` it must refuse to run and name `name`.
local function check_refused(name, fn, change)
  local program = neap.compile(fn)
  program(x)
  assert.equal(program(x):item(), program(x):item())
  change()
  local err = expect.fails("INVALID", {('"%s"'):format(name), "stale_spec.lua:"}, program, x)
  assert.matches("when the function at", err.message, 1, true)
end

describe("A traced function notices that", function()
  it("a variable holds another tensor", function()
    local t = neap.tensor {1, 1}
    check_refused("t", function(v) return (v * t):sum() end, function() t = neap.tensor {100, 100} end)
  end)

  it("a variable of an update's loss holds another tensor", function()
    local target, model = neap.zeros(2, {dtype = "int64"}), nn.Linear(3, 4)
    local update = neap.update {
      loss = function(v) return neap.cross_entropy(model(v), target) end,
      optimizer = neap.optim.sgd {params = model, lr = 0},
    }
    update(neap.ones(2, 3))
    target = neap.ones(2, {dtype = "int64"})
    expect.fails("INVALID", {'"target"', "copy_"}, update, neap.ones(2, 3))
  end)

  it("a field of a table, or of a table there, holds another tensor", function()
    local c = {t = neap.tensor {1, 1}, inner = {[2] = neap.tensor {1, 1}}}
    check_refused("c.t", function(v) return (v * c.t):sum() end, function() c.t = neap.tensor {2, 2} end)
    check_refused("c.inner[2]", function(v) return (v * c.inner[2]):sum() end,
      function() c.inner[2] = neap.tensor {2, 2} end)
    check_refused("c.inner[2]", function(v) return (v * c.inner[2]):sum() end, function() c.inner = nil end)
  end)

  it("a global holds another tensor", function()
    local globals = {neap = neap, weight = neap.tensor {1, 1}}
    local fn = assert(load("return function(v) return (v * weight):sum() end", "=stale_spec.lua", "t", globals))()
    check_refused("weight", fn, function() globals.weight = neap.tensor {2, 2} end)
  end)

  it("a variable holds another function, of Lua or of the library", function()
    local g, act = function(v) return v end, neap.relu
    check_refused("g", function(v) return g(v):sum() end, function() g = function(v) return v * 100 end end)
    check_refused("act", function(v) return act(v):sum() end, function() act = neap.gelu end)
  end)

  it("a variable holds another module", function()
    local model = nn.Linear(2, 1)
    check_refused("model", function(v) return model(v):sum() end, function() model = nn.Linear(2, 1) end)
  end)

  it("what a function it calls closes over has changed", function()
    local s, t = 1, neap.tensor {1, 1}
    local function inner(v) return v * s * t end
    local function outer(v) return inner(v):sum() end
    check_refused("s", outer, function() s = 2 end)
    check_refused("t", outer, function() t = neap.tensor {2, 2} end)
  end)

  it("what the methods that a module uses close over has changed", function()
    local s, unused = 1, 1
    local Scaled = nn.module("Scaled", {
      scale = function(_, v) return v * s end,
      note = function() unused = unused + 1 end,
      forward = function(self, v) return self:scale(v):sum() end,
    })
    local model = Scaled()
    local program = neap.compile(function(v) return model(v) end)
    program(x)
    model:note()
    assert.equal(2, program(x):item())
    s = 2
    expect.fails("INVALID", {'"s"'}, program, x)
  end)

  it("what a callable object closes over has changed", function()
    local s = 1
    check_refused("s", setmetatable({}, {__call = function(_, v) return (v * s):sum() end}), function() s = 2 end)
  end)
end)

describe("A traced function goes on when", function()
  it("a tensor was written to", function()
    local t = neap.tensor {1, 1}
    local program = neap.compile(function(v) return (v * t):sum() end)
    assert.equal(2, program(x):item())
    t:copy_(neap.tensor {100, 100})
    assert.equal(200, program(x):item())
  end)

  it("a tensor that it does not use is another", function()
    local used, other = neap.tensor {1, 1}, {t = neap.zeros(2)}
    local program = neap.compile(function(v)
      if v.ndim > 1 then return other.t end
      return (v * used):sum()
    end)
    program(x)
    other.t = neap.ones(2)
    assert.equal(2, program(x):item())
  end)

  it("parameters that it looks up without a call are replaced, frozen and thawed", function()
    local model = nn.Linear(2, 1, {bias = false})
    local program = neap.compile(function(v) return neap.linear(v, model.weight):sum() end)
    program(x)
    model.weight = nn.parameter {shape = {1, 2}, init = function() return neap.full({1, 2}, 100) end}
    assert.equal(200, program(x):item())

    local update = neap.update {
      loss = function(v) return neap.linear(v, model.weight):square():sum() + (model.scale * v):sum() end,
      optimizer = neap.optim.sgd {params = (function()
        model.scale = nn.parameter {shape = {2}}
        return model
      end)(), lr = 0.001},
    }
    update(x)
    model:freeze "weight"
    local before = model.weight:tobytes()
    update(x)
    assert.equal(before, model.weight:tobytes())
    model:unfreeze "weight"
    update(x)
    assert.not_equal(before, model.weight:tobytes())
  end)
end)
