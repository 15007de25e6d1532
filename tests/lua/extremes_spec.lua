local neap = require "neap"
local expect = require "support.expect"

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end
local function fp64(t) return neap.tensor(t, {dtype = "fp64"}) end
local function slope(fn, ...)
  local _, grads = neap.value_and_grad(function(...) return (fn(...)):sum() end)(...)
  return grads[1]:totable()
end
local inf, nan = math.huge, 0 / 0

describe("Extremes along dimensions", function()
  local x = neap.tensor {{3, 1, 2}, {4, 6, 6}}

  it("come with their places", function()
    local values, places = x:max(2)
    assert.same({{3, 6}, {0, 1}, "int64"}, {values:totable(), places:totable(), places.dtype})
    values, places = x:min {dim = 1, keepdim = true}
    assert.same({{{3, 1, 2}}, {{0, 0, 0}}}, {values:totable(), places:totable()})
    values, places = x:max {dim = {1, 2}}
    assert.same({6, 4}, {values:item(), places:item()})
    assert.equal(1, select("#", x:max()))
    assert.equal(1, select("#", neap.max(x, x)))
    local low, high = x:aminmax {dim = 2}
    assert.same({{1, 4}, {3, 6}}, {low:totable(), high:totable()})
  end)

  it("come with their places from a program too", function()
    local values, places = neap.compile(function(t) return t:max(2) end)(x)
    assert.same({{3, 6}, {0, 1}}, {values:totable(), places:totable()})
    values, places = neap.compile(function(t) return t:topk(2) end)(x)
    assert.same({{{3, 2}, {6, 6}}, {{0, 2}, {1, 2}}}, {values:totable(), places:totable()})
  end)

  it("put elements in order with their places", function()
    local sorted, places = neap.tensor {2, nan, 1, 2, -inf} :sort()
    assert.same({4, 2, 0, 3, 1}, places:totable())
    assert.is_true(sorted:select(1, 5):isnan():item())
    local _, down = neap.tensor {2, nan, 1, 2, -inf} :sort {descending = true}
    assert.same({1, 0, 3, 2, 4}, down:totable())
    local none, nowhere = x:topk(0)
    assert.same({{2, 0}, {2, 0}}, {none.shape, nowhere.shape})
  end)

  it("run along", function()
    local y = neap.tensor {3, 1, 3, nan, 5}
    local values, places = y:cummax(1)
    assert.same({0, 0, 2, 3, 3}, places:totable())
    assert.same({3, 3, 3}, values:narrow(1, 1, 3):totable())
    places = select(2, y:cummin(1))
    assert.same({0, 1, 1, 3, 3}, places:totable())
    assert.same({2, 0, 1}, slope(function(t) return t:cummax(1) end, fp64 {3, 1, 3}))
  end)
end)

describe("Order statistics", function()
  it("choose an element, and tell its place", function()
    local x = neap.tensor {{4, 1, 3, 2}, {1, nan, 0, 5}}
    local values, places = x:median(2)
    assert.equal(2, values:totable()[1])
    assert.same({3, 1}, places:totable())
    assert.is_true(values:select(1, 2):isnan():item())
    values, places = x:nanmedian(2)
    assert.same({{2, 1}, {3, 0}}, {values:totable(), places:totable()})
    assert.equal(1, select("#", x:median()))
    values, places = x:kthvalue(3, 2, true)
    assert.same({{{3}, {5}}, {{2}, {3}}}, {values:totable(), places:totable()})
    raises("RANGE", function() return x:kthvalue(5) end, "`k` is 5", "4 elements")
    raises("RANGE", function() return x:kthvalue(0) end, "`k`")
    raises("SHAPE", function() return neap.zeros(0):median() end, "nothing to choose from")
  end)

  it("lie between elements as PyTorch has it", function()
    local x = fp64 {5, 1, 4, 2}
    for how, expected in pairs {linear = 2.8, lower = 2, higher = 4, nearest = 2, midpoint = 3} do
      expect.near(expected, x:quantile {q = 0.4667, interpolation = how}:item(), 1e-3)
    end
    assert.same({0, 0, 0.5, 0.5}, slope(function(t) return t:quantile(0.5) end, x))
    raises("RANGE", function() return x:quantile(1.5) end, "`q`")
  end)
end)

describe("Reductions", function()
  it("ask whether any or all", function()
    local x = neap.tensor {{0, nan}, {0, 0}}
    assert.same({true, false}, x:any(2):totable())
    assert.same({false, false}, x:all(2):totable())
    local nothing = neap.zeros(2, 0)
    assert.same({{false, false}, {true, true}}, {nothing:any(2):totable(), nothing:all(2):totable()})
    assert.same({1, "int64"}, {x:count_nonzero():item(), x:count_nonzero().dtype})
    assert.same({1, 0}, x:count_nonzero(2):totable())
  end)

  it("leave out what is not a number", function()
    local x = fp64 {{1, nan, 3}, {nan, nan, nan}}
    assert.same({4, 0}, x:nansum(2):totable())
    assert.equal(2, x:nanmean(2):totable()[1])
    assert.is_true(x:nanmean(2):select(1, 2):isnan():item())
    assert.same({{0.5, 0, 0.5}, {0, 0, 0}}, slope(function(t) return t:nanmean(2):nan_to_num() end, x))
  end)

  it("give spread and mean together", function()
    local x = fp64 {{1, 2, 6}}
    local variance, mean = neap.var_mean(x, 2)
    assert.same({{7}, {3}}, {variance:totable(), mean:totable()})
    local deviation, same = neap.std_mean(x, {dim = 2, correction = 0, keepdim = true})
    expect.near_all({math.sqrt(14 / 3)}, deviation, 1e-15)
    assert.same({{3}}, same:totable())
    assert.is_true(fp64 {5}:var():isnan():item())
  end)

  -- PyTorch's gradients: one zero, two zeros.
  it("have exact gradients of products with zeros", function()
    assert.same({{0, 3, 0}, {0, 0, 0}}, slope(function(t) return t:prod(2) end, fp64 {{1, 0, 3}, {0, 5, 0}}))
    assert.same({{1, 4, 0}, {6, 0, 0}}, slope(function(t) return t:cumprod(2) end, fp64 {{1, 0, 3}, {0, 5, 0}}))
    local x = neap.tensor({2, 3}, {dtype = "int32"})
    assert.same({{2, 6}, "int64"}, {x:cumprod(1):totable(), x:cumprod(1).dtype})
  end)

  it("sum exponentials up without overflow", function()
    local x = fp64 {-inf, 1000, 1000, -1000}
    local y = x:logcumsumexp(1)
    assert.equal(-inf, y:totable()[1])
    expect.near_all({1000, 1000 + math.log(2), 1000 + math.log(2)}, y:narrow(1, 2, 3), 1e-12)
    expect.near_all({1 + 0, 2, 1, 0}, neap.tensor(slope(function(t) return t:logcumsumexp(1) end, x)), 1e-6)
  end)
end)

describe("Distances", function()
  it("are those of PyTorch", function()
    local a, b = fp64 {{0, 0}, {3, 4}}, fp64 {{0, 0}, {6, 8}, {3, 0}}
    expect.near_all({0, 10, 3, 5, 5, 4}, neap.cdist(a, b), 1e-15)
    expect.near_all({0, 14, 3, 7, 7, 4}, neap.cdist(a, b, {p = 1}), 1e-15)
    expect.near(5, neap.dist(fp64 {0, 0}, fp64 {3, 4}):item(), 1e-15)
    expect.near_all({1e-6 * math.sqrt(2), 5}, neap.pairwise_distance(a, fp64 {0, 0}), 2e-6)
    expect.near_all({0, 0, 0.6, 0.8}, fp64(slope(function(t) return neap.cdist(t, fp64 {{0, 0}}) end, a)), 1e-15)
    expect.near_all({0, 0, 0.6, 0.8}, a:normalize(), 1e-15)
    expect.near_all({0, 0, 1, 1}, a:normalize {dim = 1}, 1e-15)
    assert.same({{0.5, -0.5}, {0, 0}}, neap.normalize(fp64 {{1, -1}, {0, 0}}, {p = 1}):totable())
    raises("SHAPE", function() return neap.normalize(neap.tensor(1)) end, "scalar")
    raises("SHAPE", function() return neap.cdist(a, fp64 {{1, 2, 3}}) end, "2", "3 numbers")
  end)
end)
