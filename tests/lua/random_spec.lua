local neap = require "neap"
local expect = require "support.expect"

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

describe("A generator", function()
  it("draws the same from the same seed, and leaves the engine's stream alone", function()
    neap.manual_seed(1)
    local plain = neap.rand(5):tobytes()
    neap.manual_seed(1)
    local a, b = neap.generator {seed = 7}, neap.generator {seed = 7}
    for _, draw in ipairs {
      function(g) return neap.rand(3, {generator = g}) end,
      function(g) return neap.randn({2, 3}, {generator = g, dtype = "fp64"}) end,
      function(g) return neap.randint(0, 100, 9, {generator = g}) end,
      function(g) return neap.randperm(9, {generator = g}) end,
      function(g) return neap.multinomial(neap.ones(4, 5), 3, {generator = g}) end,
    } do
      local first = draw(a):tobytes()
      assert.equal(first, draw(b):tobytes())
      assert.not_equal(first, draw(neap.generator {seed = 8}):tobytes())
    end
    assert.equal(plain, neap.rand(5):tobytes())
  end)

  it("draws what the engine draws from that seed", function()
    neap.manual_seed(11)
    assert.equal(neap.randn(6):tobytes(), neap.randn(6, {generator = neap.generator {seed = 11}}):tobytes())
  end)

  it("goes on from its state", function()
    local g = neap.generator {seed = 3}
    neap.rand(5, {generator = g})
    local state = g:state()
    local expected = neap.rand(5, {generator = g}):tobytes()
    assert.equal(expected, neap.rand(5, {generator = neap.generator():load_state(state)}):tobytes())
    assert.equal(3, state.seed)
    assert.is_truthy(tostring(g):find("seed 3", 1, true))
  end)

  it("is named where it is none", function()
    raises("INVALID", function() neap.rand(3, {generator = 5}) end, "rand", "generator", "5")
    raises("INVALID", function() neap.generator {sead = 5} end, "sead")
    raises("INVALID", function() neap.generator {seed = "x"} end, "seed")
    raises("INVALID", function() neap.generator():load_state {seed = 1} end, "position")
  end)
end)

describe("Random integers", function()
  it("lie between low and high, all of them", function()
    local t, seen = neap.randint(-2, 3, {40, 25}), {}
    assert.equal("int64", t.dtype)
    for _, v in ipairs(expect.values(t)) do seen[v] = (seen[v] or 0) + 1 end
    for v = -2, 2 do
      assert.is_true(seen[v] > 140 and seen[v] < 260)
      seen[v] = nil
    end
    assert.is_nil(next(seen))
  end)

  it("come in random order, each once", function()
    local seen, t = {}, neap.randperm(100)
    for _, v in ipairs(expect.values(t)) do seen[v + 1] = true end
    assert.equal(100, #seen)
    assert.not_equal(t:tobytes(), neap.randperm(100):tobytes())
    assert.same({0}, neap.randperm(0).shape)
    assert.same({0}, neap.randperm(1):totable())
  end)

  it("refuse empty ranges and traces", function()
    raises("RANGE", function() neap.randint(3, 3, 5) end, "randint", "high is 3")
    raises("RANGE", function() neap.randperm(-1) end, "n is -1")
    for _, draw in ipairs {function() return neap.randint(0, 3, 2) end, function() return neap.randperm(3) end} do
      raises("INVALID", function() neap.compile(draw)() end, "drawn once")
    end
  end)
end)

describe("neap.multinomial", function()
  it("draws by weight", function()
    local counts = {0, 0, 0, 0}
    local t = neap.multinomial(neap.tensor {1, 0, 3, 4}, 4000, {replacement = true})
    for _, v in ipairs(expect.values(t)) do counts[v + 1] = counts[v + 1] + 1 end
    assert.equal(0, counts[2])
    expect.near(0.125, counts[1] / 4000, 0.03)
    expect.near(0.375, counts[3] / 4000, 0.04)
    expect.near(0.5, counts[4] / 4000, 0.04)
  end)

  it("takes each at most once without replacement, row by row", function()
    local t = neap.multinomial(neap.tensor {{1, 0, 1, 1}, {1, 1, 1, 0}}, 3)
    assert.same({2, 3}, t.shape)
    local rows = t:totable()
    table.sort(rows[1])
    table.sort(rows[2])
    assert.same({{0, 2, 3}, {0, 1, 2}}, rows)
  end)

  it("names weights that are none", function()
    raises("RANGE", function() neap.multinomial(neap.tensor {1, -1}, 1) end, "weight 2", "-1")
    raises("RANGE", function() neap.multinomial(neap.tensor {1, 0 / 0}, 1) end, "nan")
    raises("RANGE", function() neap.multinomial(neap.tensor {{1, 1}, {0, 0}}, 1) end, "row 2")
    raises("RANGE", function() neap.multinomial(neap.tensor {1, 0}, 2) end, "1 weights", "2 draws")
    raises("SHAPE", function() neap.multinomial(neap.ones(1, 1, 1), 1) end, "[1, 1, 1]")
    raises("SHAPE", function() neap.multinomial(neap.tensor({1}, {dtype = "int64"}), 1) end, "int64")
    raises("INVALID", function() neap.multinomial(neap.ones(2), 1, {replacement = 1}) end, "replacement")
  end)
end)
