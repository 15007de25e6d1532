-- Gradients inside of what is differentiated, compiled or trained. Numbers are PyTorch's, in double precision.
local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn
local grad_of = neap.value_and_grad

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

local function f64(v) return neap.tensor(v, {dtype = "fp64"}) end

--- sin(0.37 i + offset) / 2 for i from 0, as the numbers of this file were made with.
local function wave(shape, offset)
  local n = 1
  for _, d in ipairs(shape) do n = n * d end
  return ((neap.arange(n, {dtype = "fp64"}) * 0.37 + offset):sin() * 0.5):reshape(shape)
end

--- The gradient by the first input alone.
local function slope(fn)
  return function(...)
    local _, g = grad_of(fn)(...)
    return g[1]
  end
end

local function nth(fn, order)
  for _ = 1, order do fn = slope(fn) end
  return fn
end

local function near_grads(expected, got, tolerance)
  for key, list in pairs(expected) do expect.near_all(list, got[key], tolerance) end
end

describe("The n-th derivative", function()
  local cases = {
    tanh = {function(x) return x:tanh() end, 0.634739589982459, -0.767232310091917, 0.121592277383236,
      2.77498342278079},
    exp_of_sin = {function(x) return x:sin():exp() end, 1.45663929503607, -0.11281116823489, -3.41970763127433,
      -4.51289901565769},
    power_times_exp = {function(x) return x ^ 4 * x:exp() end, 3.24637073971315, 17.850105374289, 78.1257514142954,
      266.234419324527},
    sigmoid_by_x = {function(x) return x:sigmoid() / x end, -1.0469158384959, 2.88464698364493, -12.4673823810643,
      71.4191023792554},
    log1p_of_sqrt = {function(x) return x:sqrt():log1p() end, 0.325381015557323, -0.338287816397488, 0.79380046551605,
      -2.95146882638463},
    gelu = {function(x) return x:gelu() end, 0.97661410113366, 0.47150343938381, -0.767207914282132,
      -0.252956911420413},
    softplus = {function(x) return x:softplus() end, 0.668187772168166, 0.221712873293109, -0.0745787884403418,
      -0.0732267158102083},
    silu = {function(x) return x:silu() end, 0.823386783473342, 0.391220594677979, -0.274995066388171,
      -0.206217364385725},
  }
  local x = neap.full({}, 0.7, {dtype = "fp64"})
  for name, case in pairs(cases) do
    it("of " .. name .. " is PyTorch's up to the fourth", function()
      for order = 1, 4 do
        expect.near(case[order + 1], nth(case[1], order)(x):item(), 1e-11)
        expect.near(case[order + 1], neap.compile(nth(case[1], order))(x):item(), 1e-11)
      end
    end)
  end
end)

describe("The second derivative where a formula has a seam", function()
  it("of huber_loss and smooth_l1_loss is that of the square where both are equal", function()
    local none = {reduction = "none"}
    local function second(op, x)
      local first = slope(function(u) return op(u, neap.zeros_like(u), none):sum() end)
      return slope(function(v) return first(v):sum() end)(x)
    end
    expect.near_all({1, 1, 1, 0, 0}, second(neap.huber_loss, f64 {0, 0.5, -0.5, 1, -2}), 0)
    expect.near_all({1, 1, 1, 0, 0}, second(neap.smooth_l1_loss, f64 {0, 0.5, -0.5, 1, -2}), 0)
  end)

  it("of sinc is exact near 0, and so is the first", function()
    local x = f64 {0, 1e-300, 1e-5, 0.1, -0.15, 0.3}
    local first = slope(function(v) return v:sinc():sum() end)
    expect.near_all({0, -3.2898681336964529e-300, -3.2898681333717562e-5, -0.32575126788312397, 0.48260825210498702,
      -0.90202813013888879}, first(x), 1e-15)
    assert.near(-3.28986813e-5, first(neap.tensor {1e-5}):item(), 1e-11) -- fp32
    local c = 0.1 * math.pi
    local at_tenth = -math.pi ^ 2 * math.sin(c) / c + 2 * 0.32575126788312397 / 0.1
    local second = slope(function(v) return first(v):sum() end)(x):totable()
    expect.near_all({-math.pi ^ 2 / 3, -math.pi ^ 2 / 3}, f64 {second[1], second[2]}, 1e-14)
    expect.near(at_tenth, second[4], 1e-13)
  end)

  it("of a power of 0 is 0, at 0, too", function()
    expect.near_all({0, 0}, nth(function(v) return (v ^ 0):sum() end, 1)(f64 {0, 2}), 0)
    local first = slope(function(u) return (u ^ 0):sum() end)
    expect.near_all({0, 0}, slope(function(v) return first(v):sum() end)(f64 {0, 2}), 0)
    assert.same({1.0, 1.0}, (f64 {0 / 0, math.huge} ^ 0):totable())
  end)
end)

describe("A derivative inside a trace", function()
  local x = f64 {1, 2, 3}

  it("is the same as outside, with values and other results", function()
    local function f(a, b) return (a * a * b):sum(), a + b, 7 end
    local b = f64 {4, 5, 6}
    local value, grads, sum, seven = neap.compile(function(...)
      local v, g, s, n = grad_of(f)(...)
      assert.equal(2, #g)
      return v, g[1], s, n
    end)(x, b)
    local v, g, s, n = grad_of(f)(x, b)
    assert.same({v:item(), g[1]:totable(), s:totable(), n:item()},
      {value:item(), grads:totable(), sum:totable(), seven:item()})
  end)

  it("counts what happens inside of the inner function alone", function()
    local fn = function(v)
      local before = v * v
      return slope(function(u) return (u * before * v):sum() end)(v):sum()
    end
    -- The inner slope is v^3, since `before` and `v` are constants there; the outer one goes through them.
    expect.near_all({3, 12, 27}, slope(fn)(x))
    expect.near(36, neap.compile(fn)(x):item())
  end)

  it("keeps perturbations apart", function()
    local fn = function(v)
      return v * slope(function(u) return v + u end)(neap.ones({}, {dtype = "fp64"}))
    end
    assert.equal(1, slope(fn)(neap.full({}, 5, {dtype = "fp64"})):item())
  end)

  it("takes an input that is passed twice as two", function()
    local a, b = neap.compile(function(v)
      local _, g = grad_of(function(p, q) return (p * p * q):sum() end)(v, v)
      return g[1], g[2]
    end)(x)
    assert.same({{2, 8, 18}, {1, 4, 9}}, {a:totable(), b:totable()})
  end)

  it("takes numbers, tensors from outside and integers", function()
    local k, i = f64 {2, 2, 2}, neap.tensor({0, 1}, {dtype = "int64"})
    local dn, dk, none = neap.compile(function(v)
      local _, g = grad_of(function(s, t, rows)
        return (s * t * v):sum() + v:index_select(rows, {dim = 1}):sum()
      end)(3, k, i)
      assert.is_false(g[3])
      return g[1], g[2], #g
    end)(x)
    assert.same({12, {3, 6, 9}, 3}, {dn:item(), dk:totable(), none:item()})
  end)

  it("may give an input back, or nothing that depends on it", function()
    local s = neap.full({}, 4, {dtype = "fp64"})
    local value, one, zero, zeros = neap.compile(function(u, v)
      local y, g = grad_of(function(w) return w end)(u)
      local _, h = grad_of(function() return u * 2 end)(u)
      local _, k = grad_of(function() return 3 end)(v)
      return y, g[1], h[1], k[1]
    end)(s, x)
    assert.same({4, 1, 0, {0, 0, 0}}, {value:item(), one:item(), zero:item(), zeros:totable()})
    assert.equal("fp64", zeros.dtype)
  end)

  it("stops at detach", function()
    expect.near_all({1, 2, 3}, neap.compile(slope(function(v) return (v * v:detach()):sum() end))(x))
  end)

  it("draws in it what the function draws", function()
    local v = neap.ones(200, {dtype = "fp64"})
    local y, g = neap.compile(function(a)
      local out
      local _, d = grad_of(function(u)
        out = neap.dropout(u, {p = 0.5}) * u
        return out:sum()
      end)(a)
      return out, d[1]
    end)(v)
    expect.near_all(expect.values(y * 2), g)
    -- d/du of the sum of squares of the slope 2 m u, m being 0 or 2: 8 m^2 u / 2
    local function dropped(u) return (neap.dropout(u) * u):sum() end
    local twice = slope(function(a) return slope(dropped)(a):square():sum() end)
    for _, t in ipairs(expect.values(twice(v))) do assert.is_true(t == 0 or t == 32) end
  end)

  it("goes through ops of one's own, and is taken inside of them", function()
    local cube = neap.custom {
      forward = function(v) return v * v * v end, backward = function(d, _, v) return d * v * v * 3 end,
    }
    for order, expected in ipairs {{3, 12, 27}, {6, 12, 18}, {6, 6, 6}, {0, 0, 0}} do
      local fn = function(v) return cube(v):sum() end
      for _ = 2, order do
        local below = slope(fn)
        fn = function(v) return below(v):sum() end
      end
      expect.near_all(expected, slope(fn)(x), 1e-12)
    end
    local quartic = slope(function(u) return (u ^ 4):sum() end)
    local implicit = neap.custom {
      forward = function(v) return quartic(v) end,
      backward = function(d, _, v) return slope(function(u) return (quartic(u) * d):sum() end)(v) end,
    }
    expect.near_all({4, 32, 108}, neap.compile(implicit)(x), 1e-11)
    expect.near_all({12, 48, 108}, slope(function(v) return implicit(v):sum() end)(x), 1e-11)
    local once = slope(function(u) return implicit(u):sum() end)
    expect.near_all({24, 48, 72}, slope(function(v) return once(v):sum() end)(x), 1e-11)
  end)

  it("names what is wrong, and lets a trace that catches it go on", function()
    local function inside(fn, ...)
      local arguments = table.pack(...)
      return function()
        return neap.compile(function(v)
          return (grad_of(fn)(v, table.unpack(arguments, 1, arguments.n)))
        end)(x)
      end
    end
    raises("SHAPE", inside(function(v) return v * 2 end), "[3]", "scalar", "nested_spec.lua")
    raises("DTYPE", inside(function() return neap.arange(3):sum() end), "int64")
    raises("INVALID", inside(function() end), "returned nothing")
    raises("INVALID", inside(function() return {} end), "result 1", "table")
    raises("INVALID", inside(function(v) return v:sum(), "x" end), "result 2", "'x'")
    raises("INVALID", inside(function(v) return v:sum() end, nil), "input 2", "nil")
    raises("INVALID", inside(function(v) return v:sum() end, {3}), "input 2", "table")
    local closed = f64 {1}
    closed:close()
    raises("CLOSED", inside(function(v) return v:sum() end, closed), "closed")
    raises("INVALID", inside(function(v) return v:sum():item() end), "item() inside")
    local y = neap.compile(function(v)
      assert.is_false(pcall(grad_of(function(u) return u * 2 end), v))
      return slope(function(u) return (u * u):sum() end)(v)
    end)(x)
    assert.same({2, 4, 6}, y:totable())
  end)

  it("is of one order more, or tells the op that has no further gradient, and its line", function()
    local v = wave({2, 4, 4, 4}, 0.3)
    local functions = {
      max_pool2d = function(u) return u:max_pool2d {kernel_size = 2}:square():sum() end,
      batch_norm = function(u) return neap.batch_norm(u, {training = true}):pow(3):sum() end,
      layer_norm = function(u) return u:layer_norm {normalized_shape = {4}}:pow(3):sum() end,
      rnn_scan = function(u) return neap.rnn_scan(u:reshape(2, 16, 4), wave({4, 4}, 0)):square():sum() end,
      scaled_dot_product_attention = function(u)
        return neap.scaled_dot_product_attention(u, u, u):square():sum()
      end,
    }
    for name, fn in pairs(functions) do
      local ok, err = pcall(slope(function(u) return slope(fn)(u):square():sum() end), v)
      if not ok then
        assert.equal("UNSUPPORTED", err.code, name)
        assert.matches(name, tostring(err), 1, true)
        assert.matches("no gradient of its own", tostring(err), 1, true)
        assert.matches("nested_spec%.lua:%d+$", err.where)
      end
    end
  end)

  it("notices what the inner function closes over", function()
    local k = 2
    local inner = grad_of(function(v) return (v * k):sum() end)
    local program = neap.compile(function(v)
      local _, g = inner(v)
      return g[1]
    end)
    expect.near_all({2, 2, 2}, program(x))
    k = 3
    raises("INVALID", function() program(x) end, '"k"', "2", "3")
  end)
end)

describe("A Hessian-vector product", function()
  local function f(v)
    return (v * v * v):sum() + v:narrow(1, 1, 3):tanh():prod() * v:narrow(1, 2, 3):sigmoid():sum()
  end
  local x, v = f64 {0.3, -0.7, 1.1, 0.4}, f64 {1, -2, 0.5, 3}

  local hvp = neap.compile(function(a, b)
    return slope(function(u) return (slope(f)(u) * b):sum() end)(a)
  end)

  it("is what finite differences of the gradient give", function()
    local h, g = 2 ^ -17, slope(f)
    local differences = (g(x + v * h) - g(x - v * h)) / (2 * h)
    expect.near_all(expect.values(differences), hvp(x, v), 1e-8)
  end)

  it("makes a symmetric Hessian, row by row", function()
    local rows = {}
    for i = 1, 4 do
      local unit = neap.zeros(4, {dtype = "fp64"})
      unit[i] = 1
      rows[i] = expect.values(hvp(x, unit))
    end
    for i = 1, 4 do
      for k = 1, 4 do expect.near(rows[i][k], rows[k][i], 1e-12) end
    end
  end)
end)

-- Networks ---------------------------------------------------------------------------------------------

--- Two layers with a tanh between, in double precision unless said otherwise.
local function perceptron(inputs, width, dtype)
  dtype = dtype or "fp64"
  local function values(shape, offset)
    local function init() return wave(shape, offset):to(dtype):clone() end
    return nn.parameter {shape = shape, dtype = dtype, init = init}
  end
  return nn.module("Perceptron", {
    init = function(self)
      self.w1, self.b1 = values({width, inputs}, 0.1), values({width}, 0.2)
      self.w2, self.b2 = values({1, width}, 0.3), values({1}, 0.4)
    end,
    forward = function(self, x)
      return neap.linear(neap.linear(x, self.w1, self.b1):tanh(), self.w2, self.b2)
    end,
  })()
end

describe("A gradient penalty", function()
  local expected = {
    w1 = {-1.7426178864179145, -0.8371740088467019, 0.18157744346109775, -2.5335368644447054, -1.1278675581807993,
      0.4304533310169763, -4.19226983509207, -2.004144483909787, 0.45523242130289404, -4.753858365833184,
      -1.8031004210385866, 1.3916987070171258},
    b1 = {0.04809820859633712, 0.49024556070996517, 1.818179984664421, -0.705455689630229},
    w2 = {-1.3064172170754293, -6.520868662090772, -4.430071826920886, 2.2224557314941},
    b2 = {1},
  }

  local function penalized(critic)
    return function(x)
      local g = slope(function(u) return critic(u):sum() end)(x)
      local norm = g:square():sum(2):sqrt()
      return critic(x):mean() + (norm - 1):square():mean() * 10
    end
  end

  it("has the parameter gradients that PyTorch has", function()
    local critic = perceptron(3, 4)
    local loss, grads = nn.value_and_grad(critic, penalized(critic))(wave({6, 3}, 1))
    expect.near(6.531208010451668, loss:item(), 1e-12)
    near_grads(expected, grads, 1e-12)
  end)

  it("trains by neap.update, one step being PyTorch's", function()
    local critic = perceptron(3, 4, "fp32")
    local before = critic:state()
    local update = neap.update {loss = penalized(critic), optimizer = neap.optim.sgd {params = critic, lr = 0.5}}
    expect.near(6.531208010451668, update(wave({6, 3}, 1):to "fp32"), 1e-5)
    for path, t in pairs(critic:state()) do expect.near_all(expected[path], (before[path] - t) / 0.5, 1e-5) end
  end)

  it("keeps its bits in micro-batches of whole slabs", function()
    local function train(micro)
      local critic = perceptron(3, 4, "fp32")
      local update = neap.update {
        loss = penalized(critic), grain = 8, optimizer = neap.optim.adam {params = critic, lr = 1e-2},
      }
      update:start_with(micro)
      local x, loss = wave({32, 3}, 1):to "fp32", nil
      for _ = 1, 3 do loss = update(x) end
      assert.equal("bits", update:plan().exact)
      return critic:state(), loss
    end
    local whole, loss = train()
    local cut, same = train(8)
    assert.equal(loss, same)
    assert.is_true(expect.same_bits(whole, cut))
  end)

  it("takes what was computed of a parameter before for a constant, and frozen ones, too", function()
    local critic = perceptron(3, 4)
    local x = wave({6, 3}, 1)
    local double, direct = neap.compile(function(u)
      local before = critic.w1 * 2
      local _, g = nn.value_and_grad(critic, function() return (before * critic.w1):sum() end)(u)
      local _, none = nn.value_and_grad(critic, function() return (before * before):sum() end)(u)
      assert.same({4, 3}, none.w1.shape)
      return g.w1, none.w1
    end)(x)
    expect.near_all(expect.values(critic.w1 * 2), double, 1e-15)
    expect.near(0, direct:abs():sum():item())
    critic:freeze "w1"
    local by_b1 = neap.compile(function(u)
      local _, g = nn.value_and_grad(critic, function(w) return critic(w):sum() end)(u)
      assert.is_nil(g.w1)
      return g.b1
    end)(x)
    expect.near_all(expect.values(select(2, nn.value_and_grad(critic, function(w) return critic(w):sum() end)(x)).b1),
      by_b1, 1e-15)
  end)

  it("is also one by the inputs of module gradients inside of each other", function()
    local critic = perceptron(3, 4)
    local x = wave({6, 3}, 1)
    -- The squared norm of the parameter gradients, differentiated by the inputs and by the parameters.
    local function norm(u)
      local _, g = nn.value_and_grad(critic, function(w) return critic(w):square():sum() end)(u)
      return g.w1:square():sum() + g.b1:square():sum() + g.w2:square():sum() + g.b2:square():sum()
    end
    local by_x, by_w = slope(norm)(x), select(2, nn.value_and_grad(critic, norm)(x))
    local h, run = 2 ^ -18, neap.compile(norm)
    local unit = wave({6, 3}, 2.5)
    expect.near(((run(x + unit * h) - run(x - unit * h)) / (2 * h)):item(), (by_x * unit):sum():item(), 1e-6)
    local w, turn = critic.w1, wave({4, 3}, 0.5)
    local kept = w:clone()
    w:copy_(kept + turn * h)
    local up = run(x):item()
    w:copy_(kept - turn * h)
    local down = run(x):item()
    w:copy_(kept)
    expect.near((up - down) / (2 * h), (by_w.w1 * turn):sum():item(), 1e-6)
  end)
end)

describe("Learning to learn", function()
  local xs, ys, xq, yq = wave({5, 3}, 0.7), wave({5}, 0.9), wave({4, 3}, 1.7), wave({4}, 1.9)
  local expected = {0.00019044732038314693, 0.05892472832188255, 0.10968382377341182}

  --- Two steps of gradient descent on the task, then the loss on what was kept back.
  local function meta_loss(w)
    local function loss(v, x, y) return (neap.matmul(x, v):tanh() - y):square():mean() end
    return function(a, b, c, d)
      local v = w
      for _ = 1, 2 do v = v - slope(function(u) return loss(u, a, b) end)(v) * 0.4 end
      return loss(v, c, d)
    end
  end

  it("differentiates through steps of gradient descent", function()
    local start = f64 {0.5, -0.3, 0.8}
    local value, grads = grad_of(function(w, ...) return meta_loss(w)(...) end)(start, xs, ys, xq, yq)
    expect.near(0.1366064055433127, value:item(), 1e-14)
    expect.near_all(expected, grads[1], 1e-14)
  end)

  it("does so in an update, also where the inner step sums over micro-batches", function()
    local function single(...)
      local list = {...}
      for i, t in ipairs(list) do list[i] = t:to "fp32" end
      return table.unpack(list)
    end
    local function train(micro)
      local Start = nn.module("Start", {init = function(self)
        self.w = nn.parameter {shape = {3}, init = function() return neap.tensor {0.5, -0.3, 0.8} end}
      end})
      local start = Start()
      local update = neap.update {
        loss = function(a, b, c, d) return meta_loss(start.w)(a, b, c, d) end, grain = 8,
        batch_dims = micro and {1, 1, 1, 1} or {false, false, false, false},
        optimizer = neap.optim.sgd {params = start, lr = 1},
      }
      if micro then
        update:start_with(micro)
        local x, y = single(wave({16, 3}, 0.7), wave({16}, 0.9))
        update(x, y, x * 2, y)
        return start:state(), update:plan().exact
      end
      update(single(xs, ys, xq, yq))
      return start:state()
    end
    expect.near_all(expected, f64 {0.5, -0.3, 0.8} - train().w:to "fp64", 1e-6)
    local whole, cut, exact = train(16), train(8)
    assert.equal("bits", exact)
    assert.is_true(expect.same_bits(whole, cut))
  end)
end)

describe("A physics-informed loss", function()
  it("trains on u''(x), as PyTorch would", function()
    local net = perceptron(1, 5)
    local t = neap.arange(7, {dtype = "fp64"}):reshape(7, 1) / 3 - 1
    local function residual(x)
      local function u(v) return net(v):sum() end
      local ddu = slope(function(v) return slope(u)(v):sum() end)(x)
      return (ddu + net(x):square() * 9 - x:sin()):square():mean()
    end
    local loss, grads = nn.value_and_grad(net, residual)(t)
    expect.near(86.84870067005934, loss:item(), 1e-10)
    near_grads({
      w1 = {25.532200148882843, 42.8363954260655, 42.761396030555304, 37.724290724317626, 34.71545364143475},
      b1 = {45.06104225982682, 81.66602366436074, 92.52743243814518, 91.25462517068101, 87.07211579667273},
      w2 = {39.39832470826096, 116.13322650886403, 165.47576666121574, 189.66830876237157, 194.5662200533058},
      b2 = {310.1909057427406},
    }, grads, 1e-9)
    net, t = perceptron(1, 5, "fp32"), t:to "fp32"
    local update = neap.update {loss = residual, optimizer = neap.optim.adam {params = net, lr = 1e-2}}
    local first, last = update(t), nil
    for _ = 1, 200 do last = update(t) end
    assert.is_true(last < first / 100, last)
  end)
end)
