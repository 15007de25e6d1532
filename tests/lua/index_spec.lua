local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

local function indices(t) return neap.tensor(t, {dtype = "int64"}) end
local function raises(code, words, fn) return expect.fails(code, words, fn) end
local x = neap.tensor {{3, 1, 2}, {4, 6, 5}}

describe("Cutting", function()
  it("gives parts of a size, the last one smaller", function()
    local a, b, rest = neap.split(neap.tensor {1, 2, 3, 4, 5}, 2)
    assert.same({{1, 2}, {3, 4}, {5}}, {a:totable(), b:totable(), rest:totable()})
    assert.equal(1, select("#", x:split(5)))
    assert.same({0}, neap.split(neap.zeros(0), 2).shape)
  end)

  it("gives parts of the sizes in a list", function()
    local a, b = x:split({1, 2}, {dim = 2})
    assert.same({{{3}, {4}}, {{1, 2}, {6, 5}}}, {a:totable(), b:totable()})
    raises("SHAPE", {"add up to 2", "3 entries"}, function() return x:split({1, 1}, -1) end)
    raises("INVALID", {"size 1", "-1"}, function() return x:split({-1, 4}, -1) end)
  end)

  it("gives at most so many chunks", function()
    local a, b = x:chunk(2, -1)
    assert.same({{2, 2}, {2, 1}}, {a.shape, b.shape})
    assert.equal(2, select("#", neap.zeros(4):chunk(3)))
    raises("INVALID", {"chunks", "0"}, function() return x:chunk(0) end)
    raises("RANGE", {"dim", "3"}, function() return x:chunk(2, 3) end)
    raises("SHAPE", "scalar", function() return neap.full({}, 1):chunk(2) end)
    raises("INVALID", "input 1", function() return neap.split(7, 2) end)
  end)

  it("joins the gradients of the parts", function()
    local _, g = neap.value_and_grad(function(t)
      local a, b = t:chunk(2, {dim = 2})
      return (a * a):sum() + (b * 10):sum()
    end)(x)
    assert.same({{6, 2, 10}, {8, 12, 10}}, g[1]:totable())
  end)
end)

describe("neap.einsum", function()
  local a, b = neap.tensor {{1, 2}, {3, 4}}, neap.tensor {{5, 6}, {7, 8}}

  it("multiplies, transposes, sums and takes diagonals", function()
    assert.same({{19, 22}, {43, 50}}, neap.einsum("ij,jk->ik", a, b):totable())
    assert.same({{19, 22}, {43, 50}}, neap.einsum("ij, jk", a, b):totable())
    assert.same({{1, 3}, {2, 4}}, neap.einsum("ij->ji", a):totable())
    assert.same({1, 4}, neap.einsum("ii->i", a):totable())
    assert.equal(5, neap.einsum("ii", a):item())
    assert.same({3, 7}, neap.einsum("ij->i", a):totable())
    assert.same({{5, 10}, {21, 28}}, neap.einsum("i,ij->ij", neap.tensor {1, 3}, neap.tensor {{5, 10}, {7, 28 / 3}})
      :totable())
    assert.equal(70, neap.einsum("ij,ij->", a, b):item())
  end)

  it("joins more than two, and spreads what the dots stand for", function()
    assert.same({{2 * 19, 2 * 22}, {3 * 43, 3 * 50}}, neap.einsum("i,ij,jk->ik", neap.tensor {2, 3}, a, b):totable())
    assert.same({4, 3, 2, 5}, neap.einsum("...ij,...jk->...ik", neap.zeros(4, 1, 2, 6), neap.zeros(3, 6, 5)).shape)
    assert.same({2, 0}, neap.einsum("ij,jk->ik", neap.zeros(2, 3), neap.zeros(3, 0)).shape)
  end)

  it("is differentiated", function()
    local _, g = neap.value_and_grad(function(p, q) return neap.einsum("ij,jk->", p, q) end)(a, b)
    assert.same({{{11, 15}, {11, 15}}, {{4, 4}, {6, 6}}}, {g[1]:totable(), g[2]:totable()})
  end)

  it("names what does not fit", function()
    raises("INVALID", {"input 2", "nil"}, function() return neap.einsum("ij,jk", a) end)
    raises("INVALID", "2 inputs", function() return neap.einsum("ij", a, b) end)
    raises("INVALID", '"k"', function() return neap.einsum("ij->ik", a) end)
    raises("INVALID", "twice", function() return neap.einsum("ij->ii", a) end)
    raises("INVALID", '"i.j"', function() return neap.einsum("i.j", a) end)
    raises("SHAPE", '"ijk"', function() return neap.einsum("ijk", a) end)
    raises("SHAPE", {'"j"', "2", "3"}, function() return neap.einsum("ij,jk", a, neap.zeros(3, 2)) end)
    raises("SHAPE", {'"i"', "2", "3"}, function() return neap.einsum("ii", neap.zeros(2, 3)) end)
    raises("INVALID", "equation", function() return neap.einsum(a, b) end)
  end)
end)

describe("Indices", function()
  it("are data: 0-based, int64, and in range", function()
    assert.same({{4, 6, 5}, {3, 1, 2}}, x:index_select(indices {1, 0}, {dim = 1}):totable())
    assert.same({{2, 3}, {6, 6}}, x:gather(indices {{2, 0}, {1, 1}}, {dim = 2}):totable())
    assert.same({{0, 1}, {1, 0}}, neap.one_hot(indices {1, 0}, 2):totable())
    raises("DTYPE", "int64", function() return x:index_select(neap.tensor {1}) end)
    raises("RANGE", {"index_select", "row 2", "2", "0 to 1"}, function() return x:index_select(indices {1, 2}) end)
    raises("RANGE", {"embedding", "-1"}, function() return neap.embedding(indices {-1}, x) end)
    raises("RANGE", {"gather", "3", "0 to 2"}, function() return x:gather(indices {{3}}, {dim = 2}) end)
    raises("RANGE", {"one_hot", "2"}, function() return neap.one_hot(indices {2}, 2) end)
  end)

  it("say where scatter_add adds", function()
    local y = neap.zeros(2, 3):scatter_add(indices {{0, 0, 2}, {1, 1, 1}}, x, {dim = 2})
    assert.same({{4, 0, 2}, {0, 15, 0}}, y:totable())
    local wide = neap.zeros(2, 4, {dtype = "int64"})
    raises("SHAPE", {"[2, 4]", "[2, 3]"}, function() return x:scatter_add(wide, x, 2) end)
    raises("DTYPE", {"int64", "fp32"}, function() return x:scatter_add(indices {{0}}, indices {{0}}, 2) end)
  end)

  it("give rows of a table, whose gradient adds up, but for padding", function()
    local index = indices {{0, 1}, {1, 1}}
    local function gradient(options)
      return select(2, neap.value_and_grad(function(t) return neap.embedding(index, t, options):sum() end)(x))[1]
    end
    assert.same({{1, 1, 1}, {3, 3, 3}}, gradient():totable())
    assert.same({{1, 1, 1}, {0, 0, 0}}, gradient({padding_idx = 1}):totable())
    assert.same({{1, 1, 1}, {0, 0, 0}}, gradient({padding_idx = -1}):totable())
    raises("RANGE", {"padding_idx", "2 rows"}, function() return gradient({padding_idx = 2}) end)
  end)

  it("train a table to the same bits in micro-batches", function()
    local words, wanted = {}, {}
    for i = 1, 32 do
      words[i], wanted[i] = {i * 7 % 5, i % 5, (i + i // 3) % 5}, i * 3 % 4
    end
    local xs, ys = indices(words), indices(wanted)
    local function train(micro)
      neap.manual_seed(2)
      local out, rows = nn.Linear(9, 4), {}
      for i = 1, 5 do rows[i] = {math.sin(i), math.cos(i), math.sin(2 * i)} end
      local model = nn.module("Words", {
        init = function(self)
          self.table = nn.parameter {shape = {5, 3}, init = function() return neap.tensor(rows) end}
          self.out = out
        end,
        forward = function(self, w)
          return self.out(neap.embedding(w, self.table):reshape {w.shape[1], 9})
        end,
      })()
      local update = neap.update {
        loss = function(w, y) return neap.cross_entropy(model(w), y) end,
        optimizer = neap.optim.sgd {params = model, lr = 0.5}, grain = 4,
      }
      update:start_with(micro)
      for _ = 1, 3 do update(xs, ys) end
      assert.equal("bits", update:plan().exact)
      return model:state()
    end
    local whole = train(nil)
    assert.is_true(expect.same_bits(whole, train(8)))
    assert.is_true(expect.same_bits(whole, train(20)))
  end)
end)

describe("Order", function()
  it("is told by values and by places", function()
    assert.same({{1, 2, 3}, {4, 5, 6}}, x:sort():totable())
    assert.same({{1, 2, 0}, {0, 2, 1}}, x:argsort():totable())
    assert.same({{4, 6, 5}, {3, 1, 2}}, x:sort({dim = 1, descending = true}):totable())
    local values, places = x:topk(2)
    assert.same({{3, 2}, {6, 5}}, values:totable())
    assert.same({{0, 2}, {1, 2}}, places:totable())
    assert.same({{1}, {4}}, x:topk(1, {largest = false}):totable())
    raises("RANGE", {"`k` is 4", "3 entries"}, function() return x:topk(4) end)
  end)

  it("makes max and min: of all, along a dimension, of two", function()
    assert.equal(6, x:max():item())
    assert.same({4, 6, 5}, x:max({dim = 1}):totable())
    assert.same({{1}, {4}}, x:min({dim = -1, keepdim = true}):totable())
    assert.same({{3, 3, 3}, {4, 6, 5}}, neap.max(x, neap.tensor {3}):totable())
    raises("INVALID", "two inputs", function() return neap.max(x, x, {dim = 1}) end)
    raises("SHAPE", "[0, 2]", function() return neap.zeros(0, 2):max({dim = 1}) end)
  end)

  it("gives the gradient along a dimension to the first of equals, and shares it among all", function()
    local equal = neap.tensor {{1, 1}, {0, 1}}
    local _, along = neap.value_and_grad(function(t) return t:max({dim = 2}):sum() end)(equal)
    assert.same({{1, 0}, {0, 1}}, along[1]:totable())
    local _, all = neap.value_and_grad(function(t) return t:max() * 3 end)(equal)
    assert.same({{1, 1}, {0, 1}}, all[1]:totable())
  end)
end)

describe("Powers, norms and spreads", function()
  it("take the exponent as an input or an option", function()
    assert.same({9, 1, 4}, x:select(1, 1):pow(2):totable())
    assert.same({27, 1, 8}, neap.pow(x:select(1, 1), {exponent = 3}):totable())
    assert.same({27, 1, 4}, neap.pow(x:select(1, 1), x:select(1, 1)):totable())
    raises("INVALID", "exponent", function() return x:pow() end)
    raises("INVALID", "exponent", function() return x:pow(x, {exponent = 2}) end)
  end)

  it("have no gradient where they are 0", function()
    local zero = neap.zeros(2, 2)
    for _, fn in ipairs {
      function(t) return t:norm() end, function(t) return t:norm(3) end, function(t) return t:norm(0.5) end,
      function(t) return t:std() end, function(t) return t:norm(math.huge) end,
    } do
      local value, g = neap.value_and_grad(fn)(zero)
      assert.equal(0, value:item())
      assert.same({{0, 0}, {0, 0}}, g[1]:totable())
    end
  end)

  it("are exact where elements are 0 and gradients are of products", function()
    local _, g = neap.value_and_grad(function(t) return t:prod({dim = 2}):sum() end)(neap.tensor {{0, 2, 3}, {0, 0, 5}})
    assert.same({{6, 0, 0}, {0, 0, 0}}, g[1]:totable())
  end)

  it("divide by the count less one unless told otherwise", function()
    local t = neap.tensor {1, 2, 3, 6}
    expect.near(14 / 3, t:var():item())
    expect.near(14 / 4, t:var({unbiased = false}):item())
    expect.near(math.sqrt(14 / 2), t:std({correction = 2}):item())
    local one = neap.tensor({4}):var():item()
    assert.is_true(one ~= one)
  end)

  it("do not overflow as logarithms of sums", function()
    expect.near(1000 + math.log(2), neap.tensor({1000, 1000}):logsumexp():item(), 1e-3)
    assert.equal(-math.huge, neap.tensor({-math.huge, -math.huge}):logsumexp():item())
    assert.equal(-math.huge, neap.zeros(0):logsumexp():item())
  end)
end)

describe("Numbers by position", function()
  it("are one list of an op that has one", function()
    assert.same({3, 2}, x:reshape(3, 2).shape)
    assert.same({3, 2}, x:permute(2, 1).shape)
    assert.same({}, x:sum(1, 2).shape)
  end)

  it("are a list each where there are several", function()
    assert.is_true(x:roll(1, {dims = 2}):equal(x:roll(1, 2)))
    assert.is_true(x:roll({1, 2}, {dims = {1, 2}}):equal(x:roll({1, 2}, {1, 2})))
    assert.same({3, 2}, x:movedim(1, 2).shape)
    local volume = neap.zeros(1, 1, 9, 9, 9)
    assert.same({1, 1, 5, 5, 5}, neap.conv3d(volume, neap.zeros(1, 1, 3, 3, 3), nil, 2, 1).shape)
    assert.same({1, 1, 5, 5, 5}, neap.max_pool3d(volume, 3, 2, 1).shape)
  end)
end)

describe("Options out of their range", function()
  it("are named with what was expected", function()
    raises("INVALID", {"min", "max"}, function() return x:clamp() end)
    raises("RANGE", {"`delta` is 0"}, function() return neap.huber_loss(x, x, {delta = 0}) end)
    raises("RANGE", {"`min_val` is 2"}, function() return neap.hardtanh(x, {min_val = 2}) end)
    raises("DTYPE", {"the mask is fp32"}, function() return x:masked_fill(x, 0) end)
    raises("RANGE", {"0.5", "int64"}, function() return indices({1}):masked_fill(neap.tensor {true}, 0.5) end)
    raises("INVALID", {"2 shifts", "1 dims"}, function() return x:roll({1, 2}) end)
    raises("RANGE", {"`dims` has -1"}, function() return x:tile(-1) end)
    raises("INVALID", "weight", function() return neap.lerp(x, x) end)
    raises("RANGE", {"`dim` is 4"}, function() return x:unsqueeze(4) end)
    raises("SHAPE", {"[2, 3]", "[3]"}, function()
      return neap.binary_cross_entropy_with_logits(x, neap.zeros(3))
    end)
  end)
end)
