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

  it("keeps a row of zeros for padding", function()
    local layer = nn.Embedding(3, 2, {padding_idx = 1, init = "ones"})
    expect.near_all({1, 1, 0, 0, 1, 1}, layer.weight)
    local _, grads = nn.value_and_grad(layer, function(x) return layer(x):sum() end)(
      neap.tensor({0, 1, 1, 2}, {dtype = "int64"}))
    expect.near_all({1, 1, 0, 0, 1, 1}, grads.weight)
    local a, b = nn.Embedding(3, 2, {padding_idx = 1}), nn.Embedding(3, 2)
    neap.manual_seed(3)
    a:parameters()
    neap.manual_seed(3)
    b:parameters()
    assert.equal(b.weight[3]:tobytes(), a.weight[3]:tobytes())
    raises("INVALID", function() nn.Embedding(3, 2, {padding_idx = 3}) end, "padding_idx", "0 to 2")
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

  it("drops weights in training only", function()
    local x = neap.randn(2, 5, 4)
    for _, causal in ipairs {false, true} do
      local layer = nn.MultiheadAttention(4, 2, {dropout = 1e-9, is_causal = causal})
      local fused = nn.MultiheadAttention(4, 2, {is_causal = causal})
      fused:load_state(layer:state())
      for _, mask in ipairs {neap.rand(5, 5):lt(0.8), neap.randn(1, 1, 5, 5)} do
        if mask.dtype == "bool" then mask[{{}, 1}] = true end
        expect.near_all(expect.values(fused(x, nil, mask)), layer(x, nil, mask), 1e-5)
      end
      expect.near_all(expect.values(fused(x)), layer(x), 1e-5)
    end
    local layer = nn.MultiheadAttention(4, 2, {dropout = 0.5})
    local before = layer(x)
    assert.is_true((layer(x) - before):abs():max():item() > 1e-3)
    layer:eval()
    assert.equal(layer(x):tobytes(), layer(x):tobytes())
    raises("INVALID", function() nn.MultiheadAttention(4, 2, {dropout = 2}) end, "dropout", "2")
  end)

  it("looks back only where a mask lets it, when causal", function()
    local layer = plain(2, 1, {is_causal = true, bias = false})
    local x = neap.tensor {{{1, 0}, {2, 3}, {4, 5}}}
    local mask = neap.tensor({{1, 1, 1}, {0, 1, 1}, {0, 1, 0}}, {dtype = "bool"})
    for _, m in ipairs {mask, neap.zeros(3, 3):masked_fill(mask:logical_not(), {value = -math.huge})} do
      expect.near_all({1, 0, 2, 3, 2, 3}, layer(x, nil, m))
    end
  end)

  it("refuses widths and shapes that do not fit", function()
    raises("INVALID", function() nn.MultiheadAttention(6, 4) end, "heads is 4", "6")
    raises("SHAPE", function() nn.MultiheadAttention(4, 2)(neap.ones(2, 4)) end, "[2, 4]", "(batch, length, 4)")
    raises("SHAPE", function() nn.MultiheadAttention(4, 2)(neap.ones(1, 2, 4), neap.ones(1, 2, 3)) end, "context")
  end)
end)

describe("nn.TransformerEncoderLayer", function()
  -- torch.nn.TransformerEncoderLayer(4, 2, 3, 0) of torch 2.15 in fp64, causal, with parameter k (in order)
  -- sin(k + 0.7 i) and x cos(0.3 i^2), i from 1: y, and the gradient of (y^3).sum() by x.
  local cases = {
    {{}, {-0.56553473, 1.01702821, 1.29540862, 0.95001344, -0.96624815, 0.94975237, 0.75573279, 1.07160459, -0.84099534,
          0.95236149, 0.69308016, 1.35783126},
     {1.7514365, 2.0621258, -2.8012153, -2.0135324, -1.4622454, -0.5195058, 1.1741379, -0.2893697, -0.7348301,
      -0.3499119, 0.8712098, -2.0775769}},
    {{norm_first = true, activation = "gelu", bias = false},
     {0.97605766, 0.78762641, -0.75856218, -1.04191956, 0.12740157, -0.10263266, 0.1655347, -0.41004427, 1.01176286,
      -0.23505584, 0.83107808, -0.15850285},
     {3.3105213, -0.4648569, 3.014887, 3.8416192, 0.5483478, -0.0995182, 0.2020418, 0.0160366, 3.5567774, 1.2953703,
      2.7876065, -2.2555665}},
  }

  local function filled(shape, fn)
    local list, n = {}, 1
    for _, size in ipairs(shape) do n = n * size end
    for i = 1, n do list[i] = fn(i) end
    return neap.tensor(list):reshape(shape)
  end

  local function layer_of(options)
    local o = {feedforward = 3, dropout = 0, is_causal = true}
    for name, v in pairs(options) do o[name] = v end
    local layer = nn.TransformerEncoderLayer(4, 2, o)
    for k, p in ipairs(layer:parameters()) do
      p:copy_(filled(p.shape, function(i) return math.sin(k + 0.7 * i) end))
    end
    return layer
  end

  it("computes what PyTorch's does", function()
    local x = filled({1, 3, 4}, function(i) return math.cos(0.3 * i * i) end)
    for _, case in ipairs(cases) do
      local layer = layer_of(case[1])
      local y, grad = neap.value_and_grad(function(v) return layer(v):pow(3):sum() end)(x)
      expect.near_all(case[2], layer(x), 2e-5)
      expect.near_all(case[3], grad[1] or grad, 2e-4)
      expect.near(layer(x):pow(3):sum():item(), y:item(), 1e-5)
    end
  end)

  it("drops in training only", function()
    local layer, x = nn.TransformerEncoderLayer(4, 2, {feedforward = 3, dropout = 0.5}), neap.randn(1, 3, 4)
    assert.are_not.equal(layer(x):tobytes(), layer(x):tobytes())
    layer:eval()
    assert.equal(layer(x):tobytes(), layer(x):tobytes())
  end)

  it("names what is wrong", function()
    raises("INVALID", function() nn.TransformerEncoderLayer(4, 2, {activation = "selu"}) end, "activation", "selu")
    raises("INVALID", function() nn.TransformerEncoderLayer(4, 3) end, "heads is 3")
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
