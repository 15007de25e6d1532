local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

local function sigmoid(x) return 1 / (1 + math.exp(-x)) end
local function tanh(x) return 2 * sigmoid(2 * x) - 1 end

--- A layer of one input and one unit, whose weights are 0.1, 0.2, ... in the order of its parameters.
local function small(kind, options)
  local layer, state, n = nn[kind](1, 1, options), {}, 0
  for path, tensor in layer:named_parameters() do
    local list = {}
    for i = 1, tensor:numel() do
      n = n + 1
      list[i] = n / 10
    end
    state[path] = neap.tensor(list):reshape(tensor.shape)
  end
  layer:load_state(state)
  return layer
end

local x = neap.tensor {{{1}, {-2}, {0.5}}} -- one sample of three steps

describe("nn.LSTM", function()
  it("steps as its equations say", function()
    local y, h, c = small("LSTM", {batch_first = true})(x)
    local want, hidden, cell = {}, 0, 0
    for t, v in ipairs {1, -2, 0.5} do
      -- weight_ih 0.1 to 0.4, weight_hh 0.5 to 0.8, bias_ih 0.9 to 1.2, bias_hh 1.3 to 1.6
      local function gate(k) return k / 10 * v + (k + 4) / 10 * hidden + (k + 8) / 10 + (k + 12) / 10 end
      cell = sigmoid(gate(2)) * cell + sigmoid(gate(1)) * tanh(gate(3))
      hidden = sigmoid(gate(4)) * tanh(cell)
      want[t] = hidden
    end
    expect.near_all(want, y)
    expect.near_all({hidden}, h)
    expect.near_all({cell}, c)
    assert.same({1, 1, 1}, h.shape)
  end)

  it("goes on from the states it gave", function()
    local layer = nn.LSTM(3, 4, {num_layers = 2, batch_first = true})
    local long = neap.randn(2, 6, 3)
    local whole, h, c = layer(long)
    local first, h1, c1 = layer(long:narrow(2, 1, 4))
    local rest, h2, c2 = layer(long:narrow(2, 5, 2), h1, c1)
    assert.equal(whole:tobytes(), neap.cat(first, rest, {dim = 2}):tobytes())
    assert.equal(h:tobytes(), h2:tobytes())
    assert.equal(c:tobytes(), c2:tobytes())
    assert.same({2, 2, 4}, h.shape)
  end)

  it("has its steps first unless told otherwise", function()
    local layer = nn.LSTM(3, 4)
    local other = nn.LSTM(3, 4, {batch_first = true})
    other:load_state(layer:state())
    local input = neap.randn(5, 2, 3)
    local a, b = layer(input), other(input:permute {dims = {2, 1, 3}})
    assert.same({5, 2, 4}, a.shape)
    assert.equal(a:tobytes(), b:permute {dims = {2, 1, 3}}:tobytes())
  end)

  it("reads backwards, too, when bidirectional", function()
    local layer = nn.LSTM(2, 3, {bidirectional = true, batch_first = true})
    local state = layer:state()
    for _, name in ipairs {"weight_ih", "weight_hh", "bias_ih", "bias_hh"} do
      state[name .. "_l0_reverse"] = state[name .. "_l0"]
    end
    layer:load_state(state)
    local input = neap.randn(1, 4, 2)
    local y, turned = layer(input), layer(input:flip(2))
    expect.near_all(expect.values(y:narrow(3, 1, 3)), turned:flip(2):narrow(3, 4, 3))
  end)

  it("drops between its layers in training only", function()
    local layer = nn.LSTM(2, 3, {num_layers = 2, dropout = 0.5, batch_first = true})
    local input = neap.randn(4, 5, 2)
    assert.not_equal(layer(input):tobytes(), layer(input):tobytes())
    layer:eval()
    assert.equal(layer(input):tobytes(), layer(input):tobytes())
  end)
end)

describe("nn.GRU and nn.RNN", function()
  it("step as their equations say", function()
    local y = small("GRU", {batch_first = true})(x)
    local want, h = {}, 0
    for t, v in ipairs {1, -2, 0.5} do
      -- weight_ih 0.1 to 0.3, weight_hh 0.4 to 0.6, bias_ih 0.7 to 0.9, bias_hh 1.0 to 1.2
      local function own(k) return k / 10 * v + (k + 6) / 10 end
      local function past(k) return (k + 3) / 10 * h + (k + 9) / 10 end
      local r, z = sigmoid(own(1) + past(1)), sigmoid(own(2) + past(2))
      h = (1 - z) * tanh(own(3) + r * past(3)) + z * h
      want[t] = h
    end
    expect.near_all(want, y)

    local relu, sum = small("RNN", {batch_first = true, nonlinearity = "relu"})(x), 0
    for t, v in ipairs {1, -2, 0.5} do
      sum = math.max(0, 0.1 * v + 0.2 * sum + 0.3 + 0.4)
      want[t] = sum
    end
    expect.near_all(want, relu)
  end)

  it("take and give the state of a single layer without its first dimension, too", function()
    for _, kind in ipairs {"GRU", "RNN"} do
      local layer = nn[kind](2, 3, {batch_first = true})
      local input, h = neap.randn(4, 2, 2), neap.randn(4, 3)
      local a, flat = layer(input, h)
      local b, stacked = layer(input, h:reshape {1, 4, 3})
      assert.same({4, 3}, flat.shape)
      assert.same({1, 4, 3}, stacked.shape)
      assert.equal(a:tobytes(), b:tobytes())
    end
  end)
end)

describe("A recurrent layer", function()
  it("begins within 1 over the root of its width", function()
    local layer = nn.LSTM(50, 16)
    assert.is_true(layer.weight_ih_l0:abs():amax():item() <= 0.25)
    assert.is_true(layer.weight_ih_l0:abs():amax():item() > 0.24)
    assert.same({64, 16}, layer.weight_hh_l0.shape)
  end)

  it("trains to the same bits in micro-batches, also with carried state", function()
    for _, kind in ipairs {"LSTM", "GRU", "RNN"} do
      local function train(micro)
        neap.manual_seed(3)
        local layer = nn[kind](3, 5, {batch_first = true})
        layer:parameters()
        local input, h, c = neap.randn(48, 7, 3), neap.zeros(48, 5), neap.zeros(48, 5)
        local update = neap.update {
          loss = function(a, ...)
            local results = table.pack(layer(a, ...))
            return results[1]:square():sum(), table.unpack(results, 2, results.n)
          end,
          optimizer = neap.optim.sgd {params = layer, lr = 0.01}, grain = 8,
        }
        update:start_with(micro)
        for _ = 1, 3 do
          if kind == "LSTM" then _, h, c = update(input, h, c) else _, h = update(input, h) end
        end
        assert.equal("bits", update:plan().exact)
        local state = layer:state()
        state.h = h
        return state
      end
      local whole = train(nil)
      assert.is_true(expect.same_bits(whole, train(8)))
      assert.is_true(expect.same_bits(whole, train(16)))
    end
  end)

  it("refuses what does not fit", function()
    local layer = nn.LSTM(3, 4, {batch_first = true})
    raises("SHAPE", function() layer(neap.ones(2, 5, 2)) end, "nn.LSTM", "[2, 5, 2]", "(batch, steps, 3)")
    raises("SHAPE", function() layer(neap.ones(2, 0, 3)) end, "no steps")
    raises("INVALID", function() layer(neap.ones(2, 5, 3), neap.ones(1, 2, 4)) end, "the cell state is nil")
    raises("SHAPE", function() layer(neap.ones(2, 5, 3), neap.ones(2, 2, 4), neap.ones(1, 2, 4)) end,
           "the hidden state is [2, 2, 4]", "[1, 2, 4]")
    raises("INVALID", function() nn.RNN(3, 4, {nonlinearity = "sine"}) end, "sine")
    raises("INVALID", function() nn.GRU(3, 4, {num_layers = 0}) end, "num_layers")
    raises("INVALID", function() layer "words" end, "words")
  end)

  it("is made of steps that name what does not fit", function()
    local gates = neap.ones(1, 2, 6)
    raises("SHAPE", function() neap.gru_scan(gates, neap.ones(6, 3)) end, "weight [6, 3]", "[3 width, width]")
    raises("SHAPE", function() neap.gru_scan(gates, neap.ones(9, 3)) end, "gates [1, 2, 6]", "[batch, steps, 9]")
    raises("INVALID", function() neap.lstm_scan(neap.ones(1, 2, 4), neap.ones(4, 1), neap.ones(1, 1)) end, "both")
  end)
end)
