local neap = require "neap"
local nn = neap.nn

local function fails(code, text, fn, ...)
  local ok, err = pcall(fn, ...)
  assert.is_false(ok)
  assert.equal(code, err.code, tostring(err))
  assert.truthy(tostring(err):find(text, 1, true), tostring(err))
end

describe("neap.on_tick", function()
  it("takes functions and objects that have a step method, and gives them back", function()
    local function ticker() return "stopped" end
    local object = {step = function() return {state = "waiting"} end}
    assert.equal(ticker, neap.on_tick(ticker))
    assert.equal(object, neap.on_tick(object))
    assert.is_true(neap.off_tick(ticker))
    assert.is_true(neap.off_tick(object))
  end)

  it("keeps what is registered twice only once", function()
    local function ticker() end
    neap.on_tick(ticker)
    neap.on_tick(ticker)
    assert.is_true(neap.off_tick(ticker))
    assert.is_false(neap.off_tick(ticker))
  end)

  it("refuses what cannot be called", function()
    fails("INVALID", "expected a function or an object with a step method", neap.on_tick, 5)
    fails("INVALID", "expected a function or an object with a step method", neap.on_tick, {})
    fails("INVALID", "expected a function", neap.on_prepare, nil)
  end)
end)

describe("neap.export", function()
  it("refuses bad names, functions and shapes, saying which", function()
    local function fn(x) return x + 1 end
    fails("INVALID", "the name", neap.export, nil, fn, {{1}})
    fails("INVALID", "expected a function", neap.export, "a", 5, {{1}})
    fails("INVALID", "the list of shapes", neap.export, "a", fn, 3)
    fails("INVALID", "shape 1 is 4, expected a list", neap.export, "a", fn, {4})
    fails("INVALID", "dimension 2 of shape 1 is 1.5", neap.export, "a", fn, {{1, 1.5}})
    fails("SHAPE", "-3", neap.export, "a", fn, {{-3}})
    fails("SHAPE", "9 dimensions", neap.export, "a", fn, {{1, 1, 1, 1, 1, 1, 1, 1, 1}})
    fails("DTYPE", "fp13", neap.export, "a", fn, {{1, dtype = "fp13"}})
  end)

  it("passes on an error of the function, and works afterwards", function()
    local ok, err = pcall(neap.export, "b", function() error("in the function", 0) end, {{1}})
    assert.is_false(ok)
    assert.truthy(tostring(err):find("in the function", 1, true))
    fails("SHAPE", "matmul", neap.export, "b", function(x) return neap.matmul(x, x) end, {{2, 3}})
    neap.export("b", function(x) return neap.matmul(x, x) end, {{2, 2}})
  end)

  it("refuses a function that writes to a tensor", function()
    local counter = neap.zeros(1)
    local core = require "neap.core"
    fails("INVALID", "writes to a tensor", neap.export, "c", function(x)
      core.assign(counter, counter + 1)
      return x
    end, {{1}})
  end)

  it("takes another network under the same name, but not of other shapes", function()
    neap.export("d", nn.Linear(4, 2), {{1, 4}})
    neap.export("d", nn.Linear(4, 2), {{1, 4}})
    fails("SHAPE", "'d' was exported before with other shapes", neap.export, "d", nn.Linear(4, 3), {{1, 4}})
    fails("SHAPE", "'d' was exported before with other shapes", neap.export, "d", nn.Linear(4, 2), {{2, 4}})
  end)
end)

describe("update:prepare", function()
  it("takes the memory of an update and changes nothing", function()
    local model = nn.Linear(3, 2)
    local update = neap.update {
      loss = function(x) return model(x):sum() end,
      optimizer = neap.optim.sgd {params = model:parameters(), lr = 0.1},
    }
    local x, before = neap.ones(4, 3), model.weight:totable()
    update:prepare(x)
    local reserved = neap.memory().in_use
    assert.same(before, model.weight:totable())
    update(x)
    assert.equal(reserved, neap.memory().in_use)
    fails("INVALID", "inputs are needed", update.prepare, update)
  end)
end)
