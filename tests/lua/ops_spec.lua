local neap = require "neap"
local expect = require "support.expect"

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

describe("operators", function()
  local a = neap.tensor {{1, 2}, {3, 4}}

  it("work element by element and broadcast", function()
    assert.are.same({{2, 4}, {4, 6}}, (a + neap.tensor {1, 2}):totable())
    assert.are.same({{0, 0}, {2, 2}}, (a - neap.tensor {1, 2}):totable())
    assert.are.same({{1, 4}, {9, 16}}, (a * a):totable())
    assert.are.same({{1, 1}, {1, 1}}, (a / a):totable())
    assert.are.same({{1, 4}, {9, 16}}, (a ^ 2):totable())
    assert.are.same({{-1, -2}, {-3, -4}}, (-a):totable())
  end)

  it("take numbers on either side", function()
    assert.are.same({{2, 3}, {4, 5}}, (1 + a):totable())
    assert.are.same({{9, 8}, {7, 6}}, (10 - a):totable())
    assert.are.same({{12, 6}, {4, 3}}, (12 / a):totable())
    assert.are.same({{2, 4}, {8, 16}}, (2 ^ a):totable())
    assert.are.equal(3.0, (neap.tensor {1, 2} + 1):totable()[2])
  end)

  it("refuse what is no number", function()
    raises("INVALID", function() return a + nil end, "add", "nil")
    raises("INVALID", function() return a * "2" end, "mul", "'2'")
    raises("INVALID", function() return {} - a end, "sub", "a table")
  end)

  it("leave comparing to methods", function()
    assert.are.same({{false, false}, {true, true}}, a:gt(2):totable())
    raises("INVALID", function() return a < a end, "a:lt(b)")
  end)
end)

describe("a number beside a tensor", function()
  local i = neap.tensor({1, 2}, {dtype = "int64"})

  it("takes the dtype of the tensor", function()
    assert.are.equal("int64", (i + 1).dtype)
    assert.are.equal("fp64", (neap.zeros(2, {dtype = "fp64"}) + 0.5).dtype)
    assert.are.equal(0.1, (neap.zeros(1, {dtype = "fp64"}) + 0.1):item())
    assert.are.equal("uint8", (neap.zeros(2, {dtype = "uint8"}) + 255).dtype)
  end)

  it("makes integers fp32 when it is a float", function()
    local t = i + 0.5
    assert.are.same({"fp32", {1.5, 2.5}}, {t.dtype, t:totable()})
    assert.are.equal("fp32", (i * 2.0).dtype)
  end)

  it("is refused where the dtype cannot hold it", function()
    raises("RANGE", function() return neap.zeros(2, {dtype = "uint8"}) - 256 end, "256", "uint8")
    raises("RANGE", function() return i + math.maxinteger end, "2^53")
  end)

  it("says nothing about the condition of where", function()
    local t = neap.where(neap.tensor {true, false}, neap.tensor {1, 2}, 0)
    assert.are.same({"fp32", {1, 0}}, {t.dtype, t:totable()})
  end)

  it("is not enough by itself", function()
    raises("INVALID", function() return neap.add(1, 2) end, "add", "at least one tensor")
  end)
end)

describe("options", function()
  local t = neap.arange(6, {dtype = "fp32"}):reshape(2, 3)

  it("are given by name", function()
    assert.are.same({3, 12}, t:sum({dim = 2}):totable())
    assert.are.same({{3}, {12}}, neap.sum(t, {dim = -1, keepdim = true}):totable())
    assert.are.equal(15, t:sum({dim = {1, 2}}):item())
  end)

  it("are given by position, in their order", function()
    assert.are.same({3, 5, 7}, t:sum(1):totable())
    assert.are.same({{3, 5, 7}}, t:sum(1, true):totable())
    assert.are.equal(15, t:sum({1, 2}):item())
    assert.are.same({1, 4}, t:mean(2):totable())
    assert.are.same({2, 2}, t:argmax(2):totable())
    assert.are.same({{1, 2}, {4, 5}}, t:narrow(2, 2, 2):totable())
    assert.are.same({2, 5}, t:select(2, -1):totable())
    assert.are.equal("int64", t:to("int64").dtype)
  end)

  it("may be lists, written in a row or as a table", function()
    assert.are.same({3, 2}, t:reshape(3, 2).shape)
    assert.are.same({3, 2}, t:reshape({3, 2}).shape)
    assert.are.same({3, 2}, t:reshape({shape = {3, -1}}).shape)
    assert.are.same({}, neap.ones(1):reshape({}).shape)
    assert.are.same({3, 2}, t:permute(2, 1).shape)
    assert.are.same({3, 2}, t:transpose(1, 2).shape)
    assert.are.same({4, 2, 3}, t:expand(4, 2, 3).shape)
    assert.are.same({6}, t:flatten().shape)
    assert.are.same({6}, t:flatten(1, 2).shape)
  end)

  it("follow a list of tensors", function()
    assert.are.same({4, 3}, neap.cat({t, t}, 1).shape)
    assert.are.same({2, 6}, neap.cat({t, t}, {dim = 2}).shape)
    assert.are.same({2, 2, 3}, neap.stack({t, t}).shape)
    assert.are.same({2, 3, 2}, neap.stack({t, t}, 3).shape)
    assert.are.same({4, 3}, t:cat(t).shape)
    local many = {}
    for i = 1, 100 do many[i] = neap.tensor {i} end
    assert.are.equal(5050, neap.cat(many):sum():item())
  end)

  it("take integral floats where integers are meant and refuse others by name", function()
    assert.are.same({3, 2}, t:reshape(3.0, 2).shape)
    assert.are.same({3, 5, 7}, t:sum(1.0):totable())
    raises("RANGE", function() return t:reshape(3.5, 2) end, "reshape", "`shape`", "3.5")
    raises("RANGE", function() return t:sum {dim = 1.5} end, "sum", "`dim`", "1.5")
  end)

  it("are refused when unknown, twice there, or of the wrong type", function()
    raises("INVALID", function() return t:sum {dims = 1} end, "sum", "'dims'", "dim, keepdim")
    raises("INVALID", function() return t:sum(1, {dim = 1}) end, "`dim`", "twice")
    raises("INVALID", function() return t:sum {keepdim = 1} end, "`keepdim`", "true or false")
    raises("INVALID", function() return t:relu {x = 1} end, "no options")
    raises("INVALID", function() return t:relu(1) end, "one too many")
    raises("INVALID", function() return t:softmax() end, "softmax", "`dim`")
    raises("INVALID", function() return t:softmax {dim = "x"} end, "'x'")
    raises("DTYPE", function() return t:to("float") end, "'float'")
    local labels = neap.zeros(2, {dtype = "int64"})
    raises("INVALID", function() return neap.cross_entropy(t, labels, {reduction = "average"}) end,
      "`reduction`", "'average'", "mean|sum|none")
  end)

  it("that name dimensions are checked in the script's own count", function()
    raises("RANGE", function() return t:sum(3) end, "`dim`", "3", "1 to 2")
    raises("RANGE", function() return t:sum(-3) end, "-3", "-1 to -2")
    raises("RANGE", function() return t:permute(1, 3) end, "3")
    assert.are.same({2, 3, 1}, neap.stack({t}, 3).shape)
    raises("RANGE", function() return neap.stack({t}, 4) end, "4", "1 to 3")
  end)
end)

describe("inputs", function()
  it("are counted and named", function()
    local t = neap.ones(2, 3)
    raises("INVALID", function() return neap.linear(t) end, "linear", "at least 2 inputs", "got 1")
    raises("SHAPE", function() return neap.matmul(t, 2) end, "matmul", "[]")
    raises("INVALID", function() return neap.relu() end, "relu", "1 input")
    raises("INVALID", function() return neap.relu({}) end, "a table")
    raises("INVALID", function() return neap.cat {} end, "0 tensors")
    raises("INVALID", function() return neap.cat {t, "x"} end, "entry 2", "'x'")
  end)

  it("that are optional may be left out or nil", function()
    local x, w, b = neap.ones(1, 3), neap.ones(2, 3), neap.tensor {1, 2}
    assert.are.same({{3, 3}}, neap.linear(x, w):totable())
    assert.are.same({{3, 3}}, neap.linear(x, w, nil):totable())
    assert.are.same({{4, 5}}, neap.linear(x, w, b):totable())
  end)

  it("show their shapes and the line when they do not fit", function()
    local err = raises("SHAPE", function() return neap.ones(2, 3) + neap.ones(4) end, "add", "[2, 3]", "[4]")
    assert.are.equal("add", err.op)
    assert.is_truthy(err.where:match("ops_spec%.lua:%d+$"))
    assert.is_truthy(err.shapes:find("[2, 3]", 1, true))
  end)
end)

describe("results", function()
  it("that only look at the same bytes share them", function()
    local t = neap.zeros(2, 3)
    local flat = t:reshape(6)
    t[{1, 2}] = 7
    assert.are.same({0, 7, 0, 0, 0, 0}, flat:totable())
    assert.are.equal(7, t:narrow(1, 1, 1)[{1, 2}]:item())
  end)

  it("that are computed are tensors of their own", function()
    local t = neap.zeros(2, 2)
    local u = t:transpose(1, 2)
    t[1] = 1
    assert.are.same({{0, 0}, {0, 0}}, u:totable())
  end)

  it("are as PyTorch's for reductions of nothing and losses", function()
    assert.are.equal(0, neap.zeros(0, 3):sum():item())
    assert.are.same({0, 0, 0}, neap.zeros(0, 3):sum(1):totable())
    local loss = neap.cross_entropy(neap.tensor {{1, 2, 3}, {1, 2, 3}}, neap.tensor({2, 0}, {dtype = "int64"}))
    assert.is_true(math.abs(loss:item() - 1.4076059) < 1e-6)
  end)

  it("tell of labels out of range with row and value", function()
    raises("RANGE", function()
      return neap.cross_entropy(neap.zeros(3, 4), neap.tensor({0, 1, 4}, {dtype = "int64"}))
    end, "row 3", "4", "0 to 3")
  end)
end)

describe("A pooling window larger than its input", function()
  it("takes what there is, at no more cost", function()
    local x = neap.tensor {{{{1, 5, 3}, {4, 2, 6}}}}
    local huge = {kernel_size = {1 << 15, 1 << 15}, ceil_mode = true}
    assert.are.same({{{{6}}}}, x:max_pool2d(huge):totable())
    assert.are.same({{{{3.5}}}}, x:avg_pool2d(huge):totable())
    local _, grads = neap.value_and_grad(function(t) return t:max_pool2d(huge):sum() end)(x)
    assert.are.same({{{{0, 0, 0}, {0, 0, 1}}}}, grads[1]:totable())
  end)

  it("is refused where it would make nothing, as sides are that no table holds", function()
    local x = neap.ones(1, 1, 2, 3)
    expect.fails("SHAPE", {"max_pool2d", "[1, 1, 2, 3]"}, x.max_pool2d, x, {kernel_size = 1 << 15})
    expect.fails("RANGE", {"adaptive_avg_pool2d", "output_size", "2147483647"}, x.adaptive_avg_pool2d, x, 2147483647)
  end)
end)
