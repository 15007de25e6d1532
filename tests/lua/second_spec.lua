-- Derivatives of derivatives through whole layers. Numbers are PyTorch's, in double precision; where layer norm is
-- differentiated three times it was written out, since PyTorch 2.15 is off there from differences of the second.
local neap = require "neap"
local expect = require "support.expect"

--- sin(0.7 i + offset) / 2 for i from 0, as the numbers of this file were made with.
local function fill(offset, ...)
  local n = 1
  for _, d in ipairs {...} do n = n * d end
  return ((neap.arange(0, n, 1, {dtype = "float64"}) * 0.7 + offset):sin() * 0.5):reshape(...)
end

local function i64(t) return neap.tensor(t, {dtype = "int64"}) end

--- The gradient along v, as a function of what is differentiated.
local function along(fn, v)
  return function(x)
    local _, g = neap.value_and_grad(fn)(x)
    return (g[1] * v):sum()
  end
end

--- value: f(x). hv: the last entries of H v with the Hessian H. second, third: derivatives along v.
local function check(fn, x, v, want)
  local _, hv = neap.value_and_grad(along(fn, v))(x)
  local all = expect.values(hv[1])
  expect.near(want.value, fn(x):item(), 1e-9 * math.abs(want.value))
  for i, number in ipairs(want.hv) do expect.near(number, all[#all - #want.hv + i], 1e-10) end
  local _, third = neap.value_and_grad(along(along(fn, v), v))(x)
  expect.near(want.second, (hv[1] * v):sum():item(), 1e-9)
  expect.near(want.third, (third[1] * v):sum():item(), 1e-8)
end

describe("Hessian-vector products and third derivatives go through", function()
  local w1, b1, w2 = fill(1, 6, 4), fill(2, 6), fill(3, 3, 6)
  local scale, shift = fill(4, 6) + 1, fill(5, 6)
  local labels = i64 {0, 2, 1, 2, 0}

  it("layer norm and cross entropy, by weights and by inputs", function()
    local function net(x, w)
      return neap.layer_norm(neap.linear(x, w, b1):gelu(), scale, shift):matmul(w2:transpose(1, 2))
    end
    check(function(w) return neap.cross_entropy(net(fill(6, 5, 4), w), labels) end, w1, fill(7, 6, 4), {
      value = 1.3145741154626518, second = -0.14200327430517087, third = 0.6575600214617283,
      hv = {-0.10355432524064272, -0.03707894953384974, 0.04683523551328128, 0.10872207747777392},
    })
    check(function(x) return neap.cross_entropy(net(x, w1), labels, {label_smoothing = 0.1}) end, fill(6, 5, 4),
          fill(8, 5, 4), {
      value = 1.3056103155131302, second = -0.007480442074023239, third = -0.3947591605745602,
      hv = {0.035102260695919596, 0.08101839192685964, 0.0888303074873029, 0.05486394142462524},
    })
  end)

  it("class weights, ignored labels and smoothing", function()
    local weight = neap.tensor({0.5, 2, 1, 1.5}, {dtype = "float64"})
    check(function(x)
      return neap.cross_entropy(x, i64 {1, 0, 3, 2}, weight, {ignore_index = 2, label_smoothing = 0.2})
    end, fill(1, 4, 4) * 3, fill(2, 4, 4), {
      value = 1.2493228104039276, second = 0.07220959271282568, third = -0.008338525519900298, hv = {0, 0, 0, 0},
    })
  end)

  it("causal attention with heads", function()
    check(function(x)
      local function heads(i) return x:narrow(3, 1 + 4 * i, 4):reshape(2, 5, 2, 2):transpose(2, 3) end
      local y = neap.scaled_dot_product_attention(heads(0), heads(1), heads(2), {is_causal = true})
      return (y * y * y):sum()
    end, fill(0.3, 2, 5, 12) * 3, fill(2.3, 2, 5, 12), {
      value = 2.716208917572785, second = 0.2711448162729888, third = -1.3499893244605903,
      hv = {-0.003184104263139396, -0.051246060945502075, 0.017671961273296226, 0.023574044404614622},
    })
  end)

  it("attention in which a query sees nothing", function()
    local mask = neap.tensor({{1, 1, 0}, {0, 0, 0}, {1, 1, 1}}, {dtype = "bool"})
    local want = {
      value = 0.6578806001531481, second = 0.5669702849371423, third = 1.5986707421462403,
      hv = {-0.14858046798571584, -0.3126982521134754, -0.7582184843932902, -1.87533315352221},
    }
    local function with(m)
      return function(x)
        local y = neap.scaled_dot_product_attention(x, x, x, m, {scale = 0.5})
        return (y * y * y):sum()
      end
    end
    local x, v = fill(1, 3, 2) * 2, fill(4, 3, 2)
    check(with(mask), x, v, want)
    local summand = neap.zeros(3, 3, {dtype = "float64"}):masked_fill(mask:logical_not(), -math.huge)
    check(with(summand), x, v, want)
    local _, g = neap.value_and_grad(function(m) return with(m)(x) end)(summand)
    for _, slope in ipairs(expect.values(g[1])) do assert.is_true(slope == slope) end
  end)

  it("batch norm in training", function()
    local w, b = fill(1, 2) + 1, fill(2, 2)
    check(function(x)
      local y = neap.batch_norm(x, w, b, {training = true})
      return (y * y * y):sum()
    end, fill(3, 3, 2, 2, 2) * 2, fill(4, 3, 2, 2, 2), {
      value = 66.82872766743856, second = 1.161516079491117, third = -0.01883549147250352,
      hv = {6.381619317537784, -9.399543245505711, -4.762367468725286, 9.775294716324044},
    })
  end)

  it("group norm and root mean squares", function()
    check(function(x)
      local a = neap.group_norm(x, fill(1, 4) + 1, fill(2, 4), {groups = 2})
      local b = neap.rms_norm(x, fill(3, 3) + 1, {eps = 1e-5})
      return (a * a * a):sum() + (b * b * b):sum()
    end, fill(3, 2, 4, 3) * 2, fill(4, 2, 4, 3), {
      value = -2.27754014354632, second = 60.09793668775605, third = -102.35195584472115,
      hv = {-0.5471306574041641, -10.532865282316994, 5.8647617704687915, 30.322966188258608},
    })
  end)

  it("an LSTM and a GRU", function()
    check(function(w)
      local y, c = neap.lstm_scan(fill(2, 2, 3, 8) * 2, w)
      return y:square():sum() + (c * c * c):sum()
    end, fill(1, 8, 2), fill(3, 8, 2), {
      value = -1.2569551713462492, second = 0.06164367897143539, third = -0.04674143555115654,
      hv = {0.00762419558397054, 0.008672583072739626, -0.002659972215491833, 0.006618727932531896},
    })
    check(function(w)
      return neap.gru_scan(fill(2, 2, 3, 6) * 2, w, fill(4, 6), fill(5, 2, 2)):square():sum()
    end, fill(1, 6, 2), fill(3, 6, 2), {
      value = 1.4992294950630485, second = -0.03339914427777656, third = 0.0007399875471203188,
      hv = {-0.007846461223452735, -0.0019921793182962446, 0.03709756284825835, 0.005301512646781446},
    })
  end)

  local images, last = fill(3, 2, 1, 4, 4) * 2, fill(2, 3, 12)
  local function scores(x, k)
    local y = neap.max_pool2d(neap.conv2d(x, k, {padding = 1}):tanh(), {kernel_size = 2})
    return y:flatten(2):matmul(last:transpose(1, 2))
  end

  it("convolution and max pooling", function()
    check(function(k) return neap.cross_entropy(scores(images, k), i64 {2, 0}) end, fill(1, 3, 1, 3, 3),
          fill(5, 3, 1, 3, 3), {
      value = 0.7891349876567522, second = 0.024252901268879606, third = 0.5076063139028845,
      hv = {0.009871219863925446, -0.015129998377360803, -0.05696310300018066, -0.04051727712692699},
    })
  end)

  it("a penalty on the gradient by the images", function()
    local penalty, g = neap.value_and_grad(function(k)
      local _, by = neap.value_and_grad(function(x) return scores(x, k):sum() end)(images)
      local length = by[1]:flatten(2):square():sum({dim = 2}):sqrt()
      return (length - 1):square():mean()
    end)(fill(1, 3, 1, 3, 3))
    expect.near(0.9782333056281685, penalty:item(), 1e-12)
    local all = expect.values(g[1])
    for i, want in ipairs {0.0034245040577021955, 0.004592921731449262, -0.0001574866127218665,
                           -0.0011398350585643717} do
      expect.near(want, all[i], 1e-12)
    end
  end)
end)

describe("A penalty on the gradient, trained", function()
  local nn = neap.nn
  local nets = {
    norm = function() return nn.Sequential {nn.Linear(4, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 1)} end,
    pool = function()
      return nn.Sequential {
        function(x) return x:reshape(-1, 1, 2, 2) end, nn.Conv2d(1, 3, 3, {padding = 1}), nn.Tanh(), nn.MaxPool2d(2),
        function(x) return x:flatten(2) end, nn.Linear(3, 1),
      }
    end,
    attention = function()
      return nn.Sequential {
        function(x) return x:reshape(-1, 2, 2) end,
        function(x) return neap.scaled_dot_product_attention(x, x, x):flatten(2) end, nn.Linear(4, 1),
      }
    end,
    batch = function() return nn.Sequential {nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1)} end,
  }

  local function penalty(net, x)
    local _, g = neap.value_and_grad(function(a) return net(a):sum() end)(x)
    return (g[1]:square():sum({dim = 2}):sqrt() - 1):square():mean()
  end

  --- The parameters after a step over all of x, `micro` samples at a time, and what is exact about it.
  local function step(make, x, micro)
    neap.manual_seed(1)
    local net = make()
    net:parameters()
    local update = neap.update {
      loss = function(a) return penalty(net, a) end, grain = 16, optimizer = neap.optim.sgd {params = net, lr = 0.5},
    }
    update:start_with(micro)
    update(x)
    local after = {}
    for path, t in net:named_parameters() do after[path] = t:clone() end
    return after, update:plan().exact
  end

  local x = neap.randn(64, 4)

  it("gives the same bits in micro-batches", function()
    for _, kind in ipairs {"norm", "pool", "attention"} do
      local whole = step(nets[kind], x)
      local cut, exact = step(nets[kind], x, 16)
      assert.equal("bits", exact)
      assert.is_true(expect.same_bits(whole, cut))
    end
  end)

  it("sees the statistics of each micro-batch with batch norm, as the loss does", function()
    local cut, exact = step(nets.batch, x, 32)
    local a, b = step(nets.batch, x:narrow(1, 1, 32):clone()), step(nets.batch, x:narrow(1, 33, 32):clone())
    assert.is_false(exact)
    for path, t in pairs(cut) do expect.near_all(expect.values((a[path] + b[path]) / 2), t, 2e-6) end
  end)
end)
