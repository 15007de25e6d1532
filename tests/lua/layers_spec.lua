local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end

describe("Convolution layers", function()
  it("slide over one dimension", function()
    local layer = nn.Conv1d(1, 1, 2, {stride = 2, padding = 1})
    layer:load_state {weight = neap.tensor {{{1, 10}}}, bias = neap.tensor {0.5}}
    expect.near_all({10.5, 32.5, 4.5}, layer(neap.tensor {{{1, 2, 3, 4}}}), 1e-5)
    assert.same({6, 2, 3}, nn.Conv1d(4, 6, 3, {groups = 2}).weight.shape)
  end)

  it("spread out, transposed", function()
    local layer = nn.ConvTranspose2d(1, 1, 2, {stride = 2})
    layer:load_state {weight = neap.tensor {{{{1, 2}, {3, 4}}}}, bias = neap.tensor {1}}
    expect.near_all({11, 21, 31, 41}, layer(neap.tensor {{{{10}}}}))
    local wide = nn.ConvTranspose2d(4, 6, {3, 2}, {
      groups = 2, padding = 1, stride = 2, output_padding = 1, bias = false,
    })
    assert.same({4, 3, 3, 2}, wide.weight.shape)
    assert.same({2, 6, 10, 9}, wide(neap.rand(2, 4, 5, 5)).shape)
    assert.equal(1, #wide:parameters())
  end)

  it("name bad options", function()
    raises("INVALID", function() nn.Conv1d(4, 6, {3, 3}) end, "nn.Conv1d", "kernel")
    raises("INVALID", function() nn.Conv1d(4, 6, 3, {groups = 5}) end, "groups is 5")
    raises("INVALID", function() nn.Conv1d(4, 6, 3, {output_padding = 1}) end, "output_padding")
    raises("INVALID", function() nn.ConvTranspose2d(4, 6, 3, {stride = 0}) end, "stride")
  end)
end)

describe("nn.Bilinear", function()
  it("multiplies two inputs by a matrix for each output", function()
    local layer = nn.Bilinear(2, 3, 2)
    layer:load_state {
      weight = neap.tensor {{{1, 2, 3}, {4, 5, 6}}, {{0, 1, 0}, {1, 0, -1}}}, bias = neap.tensor {0.5, -0.5},
    }
    local y = layer(neap.tensor {{1, 2}}, neap.tensor {{1, 0, -1}})
    expect.near_all({1 - 3 + 2 * (4 - 6) + 0.5, 2 * (1 + 1) - 0.5}, y)
    assert.same({4, 5, 2}, layer(neap.rand(4, 5, 2), neap.rand(4, 5, 3)).shape)
    raises("SHAPE", function() layer(neap.rand(4, 2), neap.rand(4, 2)) end, "(..., 2) and (..., 3)")
  end)
end)

describe("nn.AdaptiveAvgPool2d and nn.Upsample", function()
  local x = neap.tensor {{{{1, 2}, {3, 4}}}}

  it("bring images to a size", function()
    expect.near_all({2.5}, nn.AdaptiveAvgPool2d(1)(x))
    expect.near_all({1.5, 3.5}, nn.AdaptiveAvgPool2d {2, 1}(x))
    expect.near_all({1, 1, 2, 2, 3, 3, 4, 4}, nn.Upsample {size = {2, 4}}(x))
    local y = nn.Upsample {scale_factor = 2, mode = "bilinear", align_corners = true}(x)
    assert.same({1, 1, 4, 4}, y.shape)
    expect.near_all({1, 4 / 3, 5 / 3, 2}, y[{1, 1, 1}], 1e-6)
  end)

  it("name bad options", function()
    raises("INVALID", function() nn.Upsample {} end, "size or scale_factor")
    raises("INVALID", function() nn.Upsample {size = 2, mode = "cubic"} end, "cubic")
    raises("INVALID", function() nn.Upsample {size = 2, align_corners = true} end, "align_corners")
    raises("INVALID", function() nn.AdaptiveAvgPool2d {1, 2, 3} end, "3 entries")
  end)
end)

describe("nn.Dropout", function()
  it("drops in training only, and scales what stays", function()
    local layer, x = nn.Dropout(0.25), neap.ones(4000)
    local y = layer(x)
    local values = expect.values(y)
    for _, v in ipairs(values) do assert.is_true(v == 0 or math.abs(v - 4 / 3) < 1e-6) end
    expect.near(1, y:mean():item(), 0.05)
    layer:eval()
    assert.equal(x:tobytes(), layer(x):tobytes())
    raises("INVALID", function() nn.Dropout(1.5) end, "1.5")
  end)
end)

describe("Activations as layers", function()
  it("are what the ops are", function()
    local x = neap.tensor {{-7, -0.5, 0.5, 7}}
    local cases = {
      {nn.ELU {alpha = 2}, x:elu {alpha = 2}}, {nn.Hardtanh {max_val = 3}, x:hardtanh {max_val = 3}},
      {nn.LeakyReLU {negative_slope = 0.2}, x:leaky_relu {negative_slope = 0.2}},
      {nn.GELU {approximate = "tanh"}, x:gelu {approximate = "tanh"}},
      {nn.Mish(), x:mish()}, {nn.Softplus(), x:softplus()}, {nn.Hardswish(), x:hardswish()},
      {nn.ReLU6(), x:clamp {min = 0, max = 6}}, {nn.Softmin(), x:softmin {dim = -1}},
    }
    for _, case in ipairs(cases) do assert.equal(case[2]:tobytes(), case[1](x):tobytes()) end
    raises("INVALID", function() nn.ELU {slope = 1} end, "nn.ELU", "slope", "alpha")
    raises("INVALID", function() nn.ReLU {alpha = 1} end, "nn.ReLU", "alpha")
  end)

  it("learn a slope", function()
    local layer = nn.PReLU()
    expect.near_all({-0.5, 3}, layer(neap.tensor {-2, 3}))
    local wide = nn.PReLU {channels = 2, init = 0.5}
    expect.near_all({-1, 3, -1, 3}, wide(neap.tensor {{{-2, 3}, {-2, 3}}}))
    raises("SHAPE", function() wide(neap.ones(2, 3)) end, "2 slopes", "3 channels")
  end)
end)

describe("Containers", function()
  it("hold a list", function()
    local Net = nn.module("Net", {
      init = function(self)
        self.layers = nn.ModuleList {nn.Linear(2, 3), nn.Linear(3, 2)}
        self.layers:append(nn.Linear(2, 1, {bias = false}))
      end,
      forward = function(self, x)
        for _, layer in ipairs(self.layers) do x = layer(x):tanh() end
        return x
      end,
    })
    local net, paths = Net(), {}
    for path in net:named_parameters() do paths[#paths + 1] = path end
    assert.same({"layers.1.weight", "layers.1.bias", "layers.2.weight", "layers.2.bias", "layers.3.weight"}, paths)
    assert.equal(3, #net.layers)
    assert.is_nil(net.layers[4])
    assert.same({5, 1}, net(neap.rand(5, 2)).shape)
    raises("INVALID", function() nn.ModuleList {nn.ReLU(), "relu"} end, "entry 2", "relu")
  end)

  it("hold modules by name", function()
    local dict = nn.ModuleDict {decoder = nn.Linear(3, 2), encoder = nn.Linear(2, 3)}
    local names = {}
    for name, m in dict:items() do
      names[#names + 1] = name
      assert.is_true(nn.is_module(m))
    end
    assert.same({"decoder", "encoder"}, names)
    assert.same({1, 2}, dict.decoder(dict.encoder(neap.rand(1, 2))).shape)
    local ordered = nn.ModuleDict {{"z", nn.ReLU()}, {"a", nn.Tanh()}}
    assert.equal("z", (ordered:items()()))
    raises("INVALID", function() nn.ModuleDict {a = 1} end, "\"a\"", "the number 1")
  end)
end)

describe("First values", function()
  local function made(init, shape)
    neap.manual_seed(3)
    local Bag = nn.module("Bag", {
      init = function(self) self.w = nn.parameter {shape = shape or {64, 100}, init = init} end,
    })
    return Bag().w
  end

  local function spread(t) return t:abs():amax():item(), math.sqrt(t:square():mean():item()) end

  it("follow their formulas", function()
    local near = {
      {"xavier_uniform", math.sqrt(6 / 164), nil}, {{"xavier_normal", gain = 2}, nil, 2 * math.sqrt(2 / 164)},
      {"kaiming_uniform", 0.1, 0.1 / math.sqrt(3)}, {"kaiming_normal", nil, math.sqrt(2 / 100)},
      {{"kaiming_uniform", a = 0, nonlinearity = "relu", mode = "fan_out"}, math.sqrt(6 / 64), nil},
      {{"kaiming_normal", nonlinearity = "tanh"}, nil, 5 / 3 / 10}, {{"normal", std = 0.02}, nil, 0.02},
      {{"uniform", low = -3, high = 3}, 3, math.sqrt(3)}, {{"constant", value = 2}, 2, 2},
      -- of a normal cut at 2: 1 - 4 phi(2) / (1 - 2 tail) squared
      {"trunc_normal", 2, 0.8796}, {{"trunc_normal", std = 0.02, a = -0.03, b = 0.03}, 0.03, nil},
    }
    for _, case in ipairs(near) do
      local most, root = spread(made(case[1]))
      if case[2] then
        assert.is_true(most <= case[2] + 1e-6)
        expect.near(case[2], most, 0.02 * case[2])
      end
      if case[3] then expect.near(case[3], root, 0.03 * case[3]) end
    end
    expect.near(5, made({"normal", mean = 5, std = 0.1}):mean():item(), 0.02)
    assert.is_true(made({"uniform", low = 1, high = 2}):amin():item() >= 1)
  end)

  it("are orthonormal rows or columns", function()
    for _, shape in ipairs {{70, 100}, {100, 70}, {40, 3, 5, 5}, {1, 4}} do
      local w = made({"orthogonal", gain = 2}, shape):reshape(shape[1], -1)
      local n = math.min(w.shape[1], w.shape[2])
      local product = w.shape[1] == n and w:matmul(w:transpose(1, 2)) or w:transpose(1, 2):matmul(w)
      local eye = neap.arange(n):reshape(n, 1):eq(neap.arange(n)):to "fp32" * 4
      assert.is_true((product - eye):abs():amax():item() < 1e-5)
    end
  end)

  it("depend on the seed and the path alone", function()
    local a = made("orthogonal")
    assert.equal(a:tobytes(), made("orthogonal"):tobytes())
    neap.manual_seed(3)
    local big = nn.Sequential {nn.Linear(2, 2), nn.Linear(4, 4, {init = "xavier_normal"})}
    local drawn = big[2].weight
    neap.manual_seed(3)
    local small = nn.Sequential {nn.ReLU(), nn.Linear(4, 4, {init = "xavier_normal"})}
    assert.equal(drawn:tobytes(), small[2].weight:tobytes())
  end)

  it("can be written to tensors that are there", function()
    local layer = nn.Linear(50, 60)
    local w = layer.weight
    assert.equal(w, nn.init.constant(w, {value = 0.5}))
    assert.equal(0.5, layer.weight:amax():item())
    nn.init.xavier_uniform(w, {gain = 0.5})
    expect.near(0.5 * math.sqrt(6 / 110), w:abs():amax():item(), 0.002)
    nn.init.zeros(layer.bias)
    assert.equal(0.0, layer.bias:abs():amax():item())
  end)

  it("name what they do not know", function()
    raises("INVALID", function() made "glorot" end, "glorot", "xavier_uniform")
    raises("INVALID", function() made {"normal", deviation = 1} end, "deviation", "std")
    raises("INVALID", function() made {"kaiming_normal", mode = "fan"} end, "fan_out")
    raises("INVALID", function() made {"kaiming_normal", nonlinearity = "swish"} end, "swish")
    raises("INVALID", function() made {"trunc_normal", a = 9, b = 10} end, "1%", "a = 9")
    raises("SHAPE", function() made("orthogonal", {5}) end, "[5]")
    raises("INVALID", function() nn.init.normal "w" end, "nn.init.normal")
  end)
end)

describe("Options that are no table", function()
  it("are answered with the names that it could have", function()
    raises("INVALID", function() nn.LeakyReLU(0.2) end, "number 0.2", "{negative_slope =}")
    raises("INVALID", function() nn.Hardtanh(-1, 1) end, "{max_val =, min_val =}")
  end)
end)
