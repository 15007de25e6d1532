local neap = require "neap"
local expect = require "support.expect"
local gpt = require "models.gpt"
local nn = neap.nn

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

describe("nn.Embedding", function()
  it("gives a row for each index", function()
    local layer = nn.Embedding(3, 2)
    layer:load_state {weight = neap.tensor {{1, 2}, {3, 4}, {5, 6}}}
    local y = layer(neap.tensor({{2, 0}}, {dtype = "int64"}))
    assert.same({1, 2, 2}, y.shape)
    expect.near_all({5, 6, 1, 2}, y)
  end)

  it("begins with the values asked for", function()
    expect.near_all({0.5, 0.5}, nn.Embedding(1, 2, {init = 0.5}).weight)
  end)

  it("refuses sizes that are none", function()
    raises("INVALID", function() nn.Embedding(0, 2) end, "count")
    raises("INVALID", function() nn.Embedding(2, "wide") end, "width")
  end)
end)

describe("nn.MultiheadAttention", function()
  --- Projections that leave what comes in as it is.
  local function plain(width, heads, options)
    local layer = nn.MultiheadAttention(width, heads, options)
    local eye, stacked = {}, {}
    for i = 1, width do
      eye[i] = {}
      for j = 1, width do eye[i][j] = i == j and 1 or 0 end
    end
    for i = 1, 3 * width do stacked[i] = eye[(i - 1) % width + 1] end
    local state = {["qkv.weight"] = neap.tensor(stacked), ["proj.weight"] = neap.tensor(eye)}
    if not options or options.bias ~= false then
      state["qkv.bias"], state["proj.bias"] = neap.zeros(3 * width), neap.zeros(width)
    end
    layer:load_state(state)
    return layer
  end

  it("weighs values by the softmax of scores, head by head", function()
    local layer = plain(2, 2)
    local y = layer(neap.tensor {{{1, 0}, {2, 3}}})
    local function mean(a, b, q)
      local wa, wb = math.exp(q * a), math.exp(q * b)
      return (wa * a + wb * b) / (wa + wb)
    end
    expect.near_all({mean(1, 2, 1), mean(0, 3, 0), mean(1, 2, 2), mean(0, 3, 3)}, y, 1e-5)
  end)

  it("looks back only when causal", function()
    local layer = plain(2, 1, {is_causal = true, bias = false})
    local a, b = layer(neap.tensor {{{1, 0}, {2, 3}}}), layer(neap.tensor {{{1, 0}, {-7, 5}}})
    expect.near_all({1, 0}, a[{1, 1}])
    expect.near_all({1, 0}, b[{1, 1}])
  end)

  it("takes keys and values from a context, and a mask", function()
    local layer = plain(2, 1)
    local x, context = neap.ones(1, 1, 2), neap.tensor {{{5, 6}, {7, 8}}}
    local mask = neap.tensor({{1, 0}}, {dtype = "bool"})
    expect.near_all({5, 6}, layer(x, context, mask))
  end)

  it("refuses widths and shapes that do not fit", function()
    raises("INVALID", function() nn.MultiheadAttention(6, 4) end, "heads is 4", "6")
    raises("SHAPE", function() nn.MultiheadAttention(4, 2)(neap.ones(2, 4)) end, "[2, 4]", "(batch, length, 4)")
    raises("SHAPE", function() nn.MultiheadAttention(4, 2)(neap.ones(1, 2, 4), neap.ones(1, 2, 3)) end, "context")
  end)
end)

describe("models.gpt", function()
  local config = {vocab = 11, d = 16, heads = 2, layers = 2, context = 8}

  local function tokens(rows, length)
    local list = {}
    for i = 1, rows do
      list[i] = {}
      for j = 1, length do list[i][j] = (i * 7 + j * j) % 11 end
    end
    return neap.tensor(list, {dtype = "int64"})
  end

  it("gives a score for each token, which later ones do not change", function()
    local model = gpt(config)
    local short, long = model(tokens(2, 5)), model(tokens(2, 8))
    assert.same({2, 8, 11}, long.shape)
    expect.near_all(expect.values(long:narrow(2, 1, 5)), short, 1e-5)
  end)

  it("refuses bad configurations and sequences that are too long", function()
    for name, v in pairs {vocab = 0, d = 15, layers = "two"} do
      local bad = {}
      for key, value in pairs(config) do bad[key] = value end
      bad[name] = v
      assert.has_error(function() gpt(bad) end)
    end
    assert.has_error(function() gpt(config)(tokens(1, 9)) end)
  end)

  it("trains to the same bits in micro-batches of whole slabs", function()
    local x, y = tokens(24, 8), tokens(24, 8)
    local function train(micro)
      neap.manual_seed(5)
      local model = gpt(config)
      local update = neap.update {
        loss = function(a, b) return neap.cross_entropy(model(a):reshape {-1, 11}, b:reshape {-1}) end,
        optimizer = neap.optim.adamw {params = model, lr = 1e-2}, grain = 8,
      }
      update:start_with(micro)
      local first, last = update(x, y), nil
      for _ = 1, 4 do last = update(x, y) end
      assert.is_true(last < first)
      assert.equal("bits", update:plan().exact)
      return model:state()
    end
    local whole = train(nil)
    assert.is_true(expect.same_bits(whole, train(8)))
    assert.is_true(expect.same_bits(whole, train(16)))
  end)
end)
