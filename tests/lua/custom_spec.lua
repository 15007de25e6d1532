local neap = require "neap"
local expect = require "support.expect"

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

--- The gradient of fn's sum by its first input.
local function slope(fn, ...)
  local _, g = neap.value_and_grad(function(...) return fn(...):sum() end)(...)
  return g[1], g[2]
end

describe("neap.custom", function()
  local x = neap.tensor {-1.25, 0.5, 2}

  it("gives an op a gradient of its own", function()
    local round = neap.custom {
      forward = function(v) return v:round() end, backward = function(d) return d * 3 end,
    }
    expect.near_all({-1, 0, 2}, round(x))
    expect.near_all({-1, 0, 2}, neap.compile(round)(x))
    expect.near_all({3, 3, 3}, slope(round, x))
    expect.near_all({0, 0, 0}, slope(function(v) return v:round() end, x))
  end)

  it("shows backward the gradient, the value and the inputs", function()
    local power = neap.custom {
      forward = function(a, b) return a:exp() * b end,
      backward = function(d, y, a, b) return d * y, d * a:exp() * (b / b) end,
    }
    local b = neap.tensor {2, 3, 4}
    local da, db = slope(function(u, v) return power(u, v) * neap.tensor {1, 10, 100} end, x, b)
    for i, v in ipairs {-1.25, 0.5, 2} do
      expect.near(math.exp(v) * (i + 1) * 10 ^ (i - 1), expect.values(da)[i], 1e-3)
      expect.near(math.exp(v) * 10 ^ (i - 1), expect.values(db)[i], 1e-3)
    end
  end)

  it("lets no gradient through but what backward gives", function()
    local half = neap.custom {
      forward = function(a, b) return a * b end, backward = function(d, _, _, b) return d * b end,
    }
    local da, db = slope(half, x, x)
    expect.near_all({-1.25, 0.5, 2}, da)
    expect.near_all({0, 0, 0}, db)
    expect.near_all({1, 1, 1}, slope(function(v)
      return neap.custom {forward = function(a) return a * v end, backward = function(d) return d end}(v)
    end, x))
  end)

  it("works twice in a function, in one another, and beside other ops", function()
    local double = neap.custom {
      forward = function(v) return v * 2 end, backward = function(d) return d * 2 end,
    }
    local nested = neap.custom {
      forward = function(v) return double(v):square() end, backward = function(d, _, v) return double(d * v) * 4 end,
    }
    expect.near_all({4, 4, 4}, slope(function(v) return double(double(v)) end, x))
    expect.near_all({-10, 4, 16}, slope(nested, x))
    expect.near_all({2 * 2 - 2.5, 4 + 1, 4 + 4}, slope(function(v) return double(double(v)) + v:square() end, x), 1e-6)
  end)

  it("has gradients of gradients, through what backward is made of", function()
    local cube = neap.custom {
      forward = function(v) return v * v * v end, backward = function(d, _, v) return d * v * v * 3 end,
    }
    local twice = function(v)
      local Outer = neap.custom {
        forward = function(u) return cube(u) end, backward = function(d, _, u) return cube(d) * 0 + d * u * u * 3 end,
      }
      return Outer(v)
    end
    expect.near_all({3 * 1.5625, 0.75, 12}, slope(twice, x), 1e-5)
  end)

  it("trains to the same bits in micro-batches", function()
    local clipped = neap.custom {
      forward = function(v) return v:clamp {min = -1, max = 1} end, backward = function(d) return d end,
    }
    local function train(micro)
      neap.manual_seed(2)
      local layer = neap.nn.Linear(3, 2)
      layer:parameters()
      local input = neap.randn(64, 3)
      local update = neap.update {
        loss = function(v) return (clipped(layer(v)) - 0.5):square():sum() end, grain = 16,
        optimizer = neap.optim.sgd {params = layer, lr = 1e-3},
      }
      update:start_with(micro)
      for _ = 1, 3 do update(input) end
      assert.equal("bits", update:plan().exact)
      return layer:state()
    end
    assert.is_true(expect.same_bits(train(), train(16)))
  end)

  it("cannot cut a batch that it sums over, and says so", function()
    local total = neap.custom {
      forward = function(v) return v:square():sum() end, backward = function(d, _, v) return d * v * 2 end,
    }
    local layer = neap.nn.Linear(3, 2)
    local update = neap.update {
      loss = function(v) return total(layer(v)) end, optimizer = neap.optim.sgd {params = layer, lr = 1e-3},
    }
    local input = neap.randn(64, 3)
    local first = update(input)
    assert.is_true(update(input) < first)
    raises("UNSUPPORTED", function() update:predict_memory {micro_batch = 8} end, "micro-batches")
  end)

  it("tells when what it refers to has changed since", function()
    local factor = 2
    local scale = neap.custom {
      forward = function(v) return v * factor end, backward = function(d) return d * factor end,
    }
    local program = neap.compile(function(v) return scale(v) end)
    expect.near_all({-2.5, 1, 4}, program(x))
    factor = 3
    raises("INVALID", function() program(x) end, "factor", "2", "3")
  end)

  it("names what is wrong", function()
    local function made(forward, backward) return neap.custom {forward = forward, backward = backward} end
    local function same(v) return v end
    raises("INVALID", function() neap.custom {forward = same} end, "backward", "missing")
    raises("INVALID", function() slope(made(function() return 1 end, same), x) end, "forward gave the number 1")
    raises("INVALID", function() slope(made(function(v) return v, v end, same), x) end, "2 values")
    raises("INVALID", function() slope(made(same, function(d) return d, d end), x) end, "2 gradients for 1")
    raises("INVALID", function() slope(made(same, function() return 1 end), x) end, "gave 1 as", "input 1")
    raises("SHAPE", function() slope(made(same, function(d) return d:sum() end), x) end, "input 1", "[3]")
    raises("INVALID", function() slope(function(v) return made(same, same)(v, 2) end, x) end, "input 2")
  end)

  it("refuses outside of a trace what it refuses in one", function()
    local function op(forward) return neap.custom {forward = forward, backward = function(d) return d end} end
    raises("INVALID", function() op(function(v) return v, v end)(x) end, "2 values")
    raises("INVALID", function() op(function() return 3 end)(x) end, "number 3")
    raises("INVALID", function() op(function(v, k) return v * k end)(x, 3) end, "input 2", "number 3")
  end)
end)
