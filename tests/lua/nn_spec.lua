local neap = require "neap"
local expect = require "support.expect"
local training = require "support.training"
local nn = neap.nn

describe("A module", function()
  local Pair = nn.module("Pair", {
    init = function(self, n)
      self.second = nn.Linear(n, n)
      self.first = nn.Linear(n, n, {bias = false})
      self.scale = nn.parameter {shape = {n}, init = "ones"}
      self.seen = nn.buffer(neap.zeros(n))
    end,
    forward = function(self, x) return self.first(self.second(x)) * self.scale end,
    double = function(self) return 2 * self.first.weight.shape[1] end,
  })

  it("lists parameters in order of assignment, under dotted paths", function()
    local paths = {}
    for path, tensor in Pair(2):named_parameters() do paths[#paths + 1] = path .. " " .. tensor.ndim end
    assert.same({"second.weight 2", "second.bias 1", "first.weight 2", "scale 1"}, paths)
  end)

  it("keeps buffers in its state but not among its parameters", function()
    local pair = Pair(2)
    assert.equal(4, #pair:parameters())
    assert.same({2}, pair:state().seen.shape)
  end)

  it("has the methods of its definition", function()
    assert.equal(6, Pair(3):double())
  end)

  it("computes forward when called", function()
    local pair = Pair(2)
    pair:load_state {
      ["second.weight"] = neap.tensor {{1, 2}, {3, 4}}, ["second.bias"] = neap.tensor {1, 1},
      ["first.weight"] = neap.tensor {{1, 0}, {1, 1}}, scale = neap.tensor {1, 10}, seen = neap.zeros(2),
    }
    expect.near_all({4, 120}, pair(neap.tensor {{1, 1}}))
  end)

  it("finds a parameter that is assigned later", function()
    local pair = Pair(2)
    pair:parameters()
    pair.third = nn.Linear(2, 1)
    assert.equal(6, #pair:parameters())
  end)

  it("lists tied parameters once, and saves them under both names", function()
    local Tied = nn.module("Tied", {
      init = function(self)
        self.a = nn.Linear(2, 2, {bias = false})
        self.b = nn.Linear(2, 2, {bias = false})
        self.b.weight = self.a.weight
      end,
    })
    local tied = Tied()
    assert.equal(1, #tied:parameters())
    local state = tied:state()
    assert.same(state["a.weight"]:totable(), state["b.weight"]:totable())
  end)

  it("keeps what it has when something else is assigned to its name", function()
    local pair = nn.module("Pair", {init = function(self)
      self.fc, self.seen = nn.Linear(2, 1), nn.buffer(neap.zeros(2))
    end})()
    local function assign(module, name, v)
      return function() module[name] = v end
    end
    expect.fails("INVALID", {'"weight" is a parameter', "a tensor [1, 2]", "copy_"},
                 assign(pair.fc, "weight", neap.zeros(1, 2)))
    expect.fails("INVALID", {'"bias" is a parameter', "the number 3"}, assign(pair.fc, "bias", 3))
    expect.fails("INVALID", {'"seen" is a buffer', "the number 0"}, assign(pair, "seen", 0))
    expect.fails("INVALID", {'"fc" is a module', "a function"}, assign(pair, "fc", print))
    assert.equal(2, #pair:parameters())
    assert.truthy(pair:state().seen)
    pair.fc.bias = nil
    pair.fc.weight = nn.parameter {shape = {1, 2}}
    assert.equal(1, #pair:parameters())
  end)

  it("writes to a buffer that a tensor is assigned to", function()
    local pair = Pair(2)
    local before = pair.seen
    pair.seen = neap.tensor {3, 4}
    expect.near_all({3, 4}, before)
  end)

  it("refuses names that are methods or hold a dot", function()
    local pair = Pair(2)
    expect.fails("INVALID", {"Pair", "train"}, function() pair.train = nn.Linear(1, 1) end)
    expect.fails("INVALID", {"a.b"}, function() pair["a.b"] = nn.Linear(1, 1) end)
  end)

  it("refuses a list of modules, whose parameters would not be found", function()
    local pair = Pair(2)
    expect.fails("INVALID", {"layers", "nn.Sequential"}, function() pair.layers = {nn.Linear(1, 1)} end)
  end)

  it("refuses to contain itself", function()
    local outer = nn.Sequential {nn.Identity()}
    expect.fails("INVALID", "contain itself", function() outer.inner = outer end)
  end)

  it("cannot be called without a forward", function()
    local Empty = nn.module("Empty", {})
    expect.fails("INVALID", {"Empty", "forward"}, function() Empty()(neap.zeros(1)) end)
  end)

  it("is refused when its definition holds other things than functions", function()
    expect.fails("INVALID", {"Odd", "forward"}, nn.module, "Odd", {forward = 3})
    expect.fails("INVALID", {"Odd", "parameters"}, nn.module, "Odd", {parameters = print})
    expect.fails("INVALID", "name", nn.module, nil, {})
  end)

  it("tells its layers as text", function()
    assert.equal("Pair\n  second: Linear\n  first: Linear", tostring(Pair(2)))
  end)
end)

describe("First values", function()
  local function net(with_extra)
    local layers = {{"a", nn.Linear(8, 8)}, {"b", nn.Linear(8, 8)}}
    if with_extra then table.insert(layers, 2, {"extra", nn.Linear(8, 8)}) end
    return nn.Sequential(layers)
  end

  it("are the same for the same seed and differ for another", function()
    neap.manual_seed(7)
    local first = net():state()
    neap.manual_seed(7)
    assert.is_true(expect.same_bits(first, net():state()))
    neap.manual_seed(8)
    assert.is_false((expect.same_bits(first, net():state())))
  end)

  it("differ between models of the same layout, by the order in which they are first used", function()
    neap.manual_seed(7)
    local first, second = net():state(), net():state()
    for path, tensor in pairs(first) do assert.are_not.equal(tensor:tobytes(), second[path]:tobytes()) end
    neap.manual_seed(7)
    assert.is_true(expect.same_bits(first, net():state()))
    assert.is_true(expect.same_bits(second, net():state()))
  end)

  it("leave the drawing where it was when one cannot be drawn", function()
    neap.manual_seed(7)
    local want = neap.rand(4):tobytes()
    neap.manual_seed(7)
    local bad = nn.module("Bad", {init = function(self)
      self.w = nn.parameter {shape = {2}, init = function() error("no values", 0) end}
    end})()
    assert.equal("no values", expect.error_of(bad.parameters, bad))
    assert.equal(want, neap.rand(4):tobytes())
  end)

  it("do not change when a layer is added", function()
    neap.manual_seed(7)
    local plain = net():state()
    neap.manual_seed(7)
    local more = net(true):state()
    for _, path in ipairs {"a.weight", "a.bias", "b.weight", "b.bias"} do
      assert.equal(plain[path]:tobytes(), more[path]:tobytes())
    end
  end)

  it("differ between layers of one shape", function()
    local state = net():state()
    assert.are_not.equal(state["a.weight"]:tobytes(), state["b.weight"]:tobytes())
  end)

  it("do not depend on what was drawn before, and leave the drawing where it was", function()
    neap.manual_seed(7)
    local first = net():state()
    local without = neap.rand(4)
    neap.manual_seed(7)
    neap.rand(1)
    assert.is_true(expect.same_bits(first, net():state()))
    neap.manual_seed(7)
    assert.equal(without:tobytes(), neap.rand(4):tobytes())
  end)

  it("lie within 1 / sqrt(fan_in) and fill that range", function()
    local conv = nn.Conv2d(4, 32, 3)
    local bound, low, high = 1 / 6, 0, 0
    for _, v in ipairs(expect.values(conv:state().weight)) do low, high = math.min(low, v), math.max(high, v) end
    assert.is_true(low >= -bound and low < -0.95 * bound)
    assert.is_true(high <= bound and high > 0.95 * bound)
    for _, v in ipairs(expect.values(conv:state().bias)) do assert.is_true(math.abs(v) <= bound) end
  end)

  it("come from a number, a name, a tensor or a function", function()
    local Own = nn.module("Own", {
      init = function(self)
        self.number = nn.parameter {shape = {2}, init = 0.5}
        self.name = nn.parameter {shape = 2, init = "zeros"}
        self.tensor = nn.parameter {shape = {2}, init = neap.tensor {1, 2}}
        self.fn = nn.parameter {shape = {2}, init = function(shape) return neap.full(shape, 3) end}
      end,
    })
    local state = Own():state()
    assert.same({0.5, 0.5}, state.number:totable())
    assert.same({0.0, 0.0}, state.name:totable())
    assert.same({1.0, 2.0}, state.tensor:totable())
    assert.same({3.0, 3.0}, state.fn:totable())
  end)

  it("are the same whether memory is short or not, and say what all of them need when it does not do", function()
    finally(function() neap.set_memory_limit(nil, "now") end)
    neap.manual_seed(7)
    local free = nn.Linear(1024, 1024):state()
    training.leave_room(5 << 20)
    neap.manual_seed(7)
    local bound = nn.Linear(1024, 1024)
    bound:parameters()
    assert.equal(free.weight:tobytes(), bound.weight:tobytes())
    local err = expect.fails("OOM", {"the model's parameters need 32.0 MiB", '"1.weight"'}, function()
      nn.Sequential {nn.Linear(4096, 1024), nn.Linear(4096, 1024)}:parameters()
    end)
    assert.is_true(err.bytes > 32 << 20)
  end)

  it("are refused when they have another shape, or no rule makes them", function()
    local Odd = nn.module("Odd", {
      init = function(self) self.w = nn.parameter {shape = {2}, init = neap.zeros(3)} end,
    })
    expect.fails("SHAPE", {'"w"', "[3]", "[2]"}, function() Odd():parameters() end)
    expect.fails("INVALID", {"init", "magic"}, nn.parameter, {shape = {2}, init = "magic"})
    expect.fails("INVALID", "shape", nn.parameter, {})
    expect.fails("INVALID", {"shape[1]", "-1"}, nn.parameter, {shape = {-1}})
    expect.fails("INVALID", {"size", "shape"}, nn.parameter, {size = {2}})
  end)
end)

describe("A module's state", function()
  it("is a copy", function()
    local fc = nn.Linear(2, 1)
    local state = fc:state()
    fc:load_state {weight = neap.tensor {{5, 6}}, bias = neap.tensor {7}}
    assert.are_not.same({{5.0, 6.0}}, state.weight:totable())
    assert.same({{5.0, 6.0}}, fc.weight:totable())
  end)

  it("loads into the same tensors, so that optimizers keep them", function()
    local fc = nn.Linear(2, 1)
    local weight = fc:parameters()[1]
    fc:load_state {weight = neap.tensor {{5, 6}}, bias = neap.tensor {7}}
    assert.same({{5.0, 6.0}}, weight:totable())
  end)

  it("must fit by path and shape, and changes nothing when it does not", function()
    local fc = nn.Linear(2, 1)
    local before = fc:state()
    expect.fails("NOT_FOUND", {"missing: bias", "unexpected: extra"}, fc.load_state, fc,
                 {weight = neap.zeros(1, 2), extra = neap.zeros(1)})
    expect.fails("SHAPE", {'"weight"', "[2, 2]", "[1, 2]"}, fc.load_state, fc,
                 {bias = neap.zeros(1), weight = neap.zeros(2, 2)})
    expect.fails("INVALID", {'"bias"', "number"}, fc.load_state, fc, {weight = neap.zeros(1, 2), bias = 3})
    expect.fails("DTYPE", {'"bias"', "int64"}, fc.load_state, fc,
                 {weight = neap.zeros(1, 2), bias = neap.zeros({1}, {dtype = "int64"})})
    local closed = neap.zeros(1)
    closed:close()
    expect.fails("CLOSED", {'"bias"'}, fc.load_state, fc, {weight = neap.zeros(1, 2), bias = closed})
    assert.is_true(expect.same_bits(before, fc:state()))
  end)

  it("may be loaded in parts", function()
    local fc = nn.Linear(2, 1)
    local missing, unexpected = fc:load_state({bias = neap.tensor {4}, more = neap.zeros(1)}, {strict = false})
    assert.same({"weight"}, missing)
    assert.same({"more"}, unexpected)
    assert.same({4.0}, fc.bias:totable())
  end)
end)

describe("Modes", function()
  local Mode = nn.module("Mode", {
    init = function(self) self.inner = nn.Linear(1, 1) end,
    forward = function(self, x) return nn.is_training(self) and x * 2 or x end,
  })

  it("reach the modules below", function()
    local net = nn.Sequential {{"mode", Mode()}}
    assert.is_true(nn.is_training(net.mode.inner))
    assert.equal(net, net:eval())
    assert.is_false(nn.is_training(net.mode.inner))
    net:train()
    assert.is_true(nn.is_training(net.mode.inner))
  end)

  it("are part of what a compiled function depends on", function()
    local mode = Mode()
    local program = neap.compile(function(x) return mode(x) end)
    local x = neap.tensor {3}
    expect.near_all({6}, program(x))
    mode:eval()
    expect.near_all({3}, program(x))
    mode:train()
    expect.near_all({6}, program(x))
  end)

  it("include frozen parameters, which get no gradient", function()
    local net = nn.Sequential {{"a", nn.Linear(2, 2)}, {"b", nn.Linear(2, 1)}}
    net:freeze "a"
    local _, grads = nn.value_and_grad(net, function(x) return net(x):sum() end)(neap.ones(1, 2))
    assert.is_nil(grads["a.weight"])
    assert.same({1, 2}, grads["b.weight"].shape)
    assert.is_false(nn.is_training(net.a))
    net:unfreeze()
    _, grads = nn.value_and_grad(net, function(x) return net(x):sum() end)(neap.ones(1, 2))
    assert.same({2, 2}, grads["a.weight"].shape)
  end)

  it("freeze by pattern, and say when nothing matches", function()
    local net = nn.Sequential {{"fc1", nn.Linear(2, 2)}, {"fc10", nn.Linear(2, 1)}}
    net:freeze ".*bias"
    local _, grads = nn.value_and_grad(net, function(x) return net(x):sum() end)(neap.ones(1, 2))
    assert.is_nil(grads["fc1.bias"])
    assert.is_nil(grads["fc10.bias"])
    assert.is_not_nil(grads["fc1.weight"])
    expect.fails("NOT_FOUND", {"fc2", "fc10.weight"}, net.freeze, net, "fc2")
  end)
end)

describe("value_and_grad of a module", function()
  it("gives the value, gradients by path and other results", function()
    local fc = nn.Linear(2, 1)
    fc:load_state {weight = neap.tensor {{1, 2}}, bias = neap.tensor {3}}
    local run = nn.value_and_grad(fc, function(x)
      local y = fc(x)
      return y:square():sum(), y
    end)
    local value, grads, y = run(neap.tensor {{1, 1}, {2, 0}})
    expect.near(61, value:item())
    expect.near_all({32, 12}, grads.weight)
    expect.near_all({22}, grads.bias)
    expect.near_all({6, 5}, y)
  end)

  it("sees new values of the parameters", function()
    local fc = nn.Linear(1, 1, {bias = false})
    local run = nn.value_and_grad(fc, function(x) return fc(x):square():sum() end)
    fc:load_state {weight = neap.tensor {{2}}}
    expect.near(4, run(neap.ones(1, 1)):item())
    fc:load_state {weight = neap.tensor {{3}}}
    expect.near(9, run(neap.ones(1, 1)):item())
  end)

  it("refuses what is no module or no function", function()
    expect.fails("INVALID", "module", nn.value_and_grad, {}, print)
    expect.fails("INVALID", "function", nn.value_and_grad, nn.Identity(), 3)
  end)
end)

describe("Layers", function()
  it("compute what their functions do", function()
    local x = neap.tensor {{-1, 2}}
    expect.near_all({0, 2}, nn.ReLU()(x))
    expect.near_all({-0.76159416, 0.96402758}, nn.Tanh()(x))
    expect.near_all({0.26894142, 0.88079708}, nn.Sigmoid()(x))
    expect.near_all({-0.26894142, 1.76159416}, nn.SiLU()(x))
    expect.near_all({-0.15865525, 1.95449974}, nn.GELU()(x))
    expect.near_all({0.04742587, 0.95257413}, nn.Softmax()(x))
    expect.near_all({-3.04858735, -0.04858735}, nn.LogSoftmax()(x))
    expect.near_all({-1, 2}, nn.Identity()(x))
  end)

  it("convolve and pool as PyTorch does", function()
    local image = neap.arange(1.0, 17, 1):to("fp32"):reshape {1, 1, 4, 4}
    local conv = nn.Conv2d(1, 1, 3, {padding = 1, stride = 2, bias = false})
    conv:load_state {weight = neap.ones(1, 1, 3, 3)}
    expect.near_all({14, 30, 57, 99}, conv(image))
    expect.near_all({6, 8, 14, 16}, nn.MaxPool2d(2)(image))
    expect.near_all({3.5, 5.5, 11.5, 13.5}, nn.AvgPool2d(2)(image))
    assert.same({1, 16}, nn.Flatten()(image).shape)
  end)

  it("run in order in a Sequential, functions too", function()
    local net = nn.Sequential {nn.Linear(2, 2), function(x) return x * 0 + 5 end, {"last", nn.Linear(2, 1)}}
    assert.same({1, 1}, net(neap.ones(1, 2)).shape)
    local paths = {}
    for path in net:named_parameters() do paths[#paths + 1] = path end
    assert.same({"1.weight", "1.bias", "last.weight", "last.bias"}, paths)
  end)

  it("refuse bad sizes and options by name", function()
    expect.fails("INVALID", {"nn.Linear", "inputs", "0"}, nn.Linear, 0, 1)
    expect.fails("INVALID", {"nn.Linear", "outputs", "2.5"}, nn.Linear, 1, 2.5)
    expect.fails("INVALID", {"nn.Linear", "bais", "bias"}, nn.Linear, 1, 1, {bais = false})
    expect.fails("INVALID", {"nn.Conv2d", "groups", "2"}, nn.Conv2d, 3, 4, 3, {groups = 2})
    expect.fails("INVALID", {"nn.Conv2d", "padding", "-1"}, nn.Conv2d, 3, 4, 3, {padding = -1})
    expect.fails("INVALID", {"nn.Conv2d", "the kernel"}, nn.Conv2d, 3, 4, {3, 3, 3})
    expect.fails("INVALID", {"nn.MaxPool2d", "count_include_pad"}, nn.MaxPool2d, 2, {count_include_pad = true})
    expect.fails("INVALID", {"nn.Sequential", "entry 2"}, nn.Sequential, {nn.ReLU(), 3})
    expect.fails("INVALID", {"nn.Sequential", "order"}, nn.Sequential, {a = nn.ReLU()})
    expect.fails("INVALID", {"nn.Sequential", "named"}, nn.Sequential, {{"a", nn.ReLU()}, {"a", nn.ReLU()}})
  end)
end)

describe("A summary", function()
  it("prints layers, shapes, parameters and bytes", function()
    local net = nn.Sequential {{"fc", nn.Linear(3, 4)}, {"out", nn.Linear(4, 2)}}
    local printed, print_before = {}, print
    _G.print = function(text) printed[#printed + 1] = text end
    local ok, text = pcall(net.summary, net, {5, 3})
    _G.print = print_before
    assert(ok, text)
    assert.same({text}, printed)
    assert.truthy(text:find("fc: Linear +%[5, 4%] +16 +64 B"))
    assert.truthy(text:find("out: Linear +%[5, 2%] +10 +40 B"))
    assert.truthy(text:find("total +26 +104 B"))
  end)

  --- The text, with nothing printed.
  local function summary(net, ...)
    local print_before = print
    _G.print = function() end
    local ok, text = pcall(net.summary, net, ...)
    _G.print = print_before
    if not ok then error(text, 0) end
    return text
  end

  it("counts tied parameters once, and what is frozen apart", function()
    local net = nn.Sequential {{"a", nn.Linear(3, 3)}, {"b", nn.Linear(3, 3, {bias = false})}}
    net.b.weight = net.a.weight
    local text = summary(net:freeze "a.bias", {5, 3})
    assert.truthy(text:find("Sequential +%[5, 3%] +%- +%-"), text)
    assert.truthy(text:find("b: Linear +%[5, 3%] +%- +%-"), text)
    assert.truthy(text:find("total +12 +48 B"), text)
    assert.truthy(text:find("of which frozen +3"), text)
  end)

  it("takes a shape for each input", function()
    local text = summary(nn.Bilinear(2, 3, 4), {5, 2}, {5, 3})
    assert.truthy(text:find("Bilinear +%[5, 4%] +28 +112 B"), text)
    expect.fails("INVALID", {"the input's shape", "nil"}, summary, nn.Linear(1, 1))
    expect.fails("INVALID", {"the shape of input 2", "the number 3"}, summary, nn.Bilinear(2, 3, 4), {5, 2}, 3)
  end)
end)

describe("A compiled function", function()
  it("is traced once for each signature", function()
    local traces = {}
    local program = neap.compile(function(x)
      traces[#traces + 1] = true
      return x * 2
    end)
    program(neap.ones(2))
    program(neap.zeros(2))
    assert.equal(1, #traces)
    program(neap.ones(3))
    program(neap.ones(2))
    assert.equal(2, #traces)
  end)

  it("takes numbers as inputs that may change", function()
    local program = neap.compile(function(x, k) return x * k end)
    expect.near_all({2, 4}, program(neap.tensor {1, 2}, 2))
    expect.near_all({3, 6}, program(neap.tensor {1, 2}, 3))
  end)

  it("names a variable that changed since", function()
    local scale = 2
    local program = neap.compile(function(x) return x * scale end)
    expect.near_all({2}, program(neap.ones(1)))
    scale = 3
    expect.fails("INVALID", {'"scale"', "was 2", "is 3", "nn_spec.lua"}, program, neap.ones(1))
  end)

  it("knows its memory without being run", function()
    local program = neap.compile(function(x) return x:relu():sum() end)
    expect.fails("INVALID", "nothing was traced", program.memory, program)
    assert.is_true(program:memory(neap.ones(64)).peak >= 0)
  end)

  it("refuses what is no function, and unknown options", function()
    expect.fails("INVALID", "function", neap.compile, 3)
    expect.fails("INVALID", {"cash", "cache"}, neap.compile, print, {cash = 1})
  end)
end)

describe("value_and_grad of a function", function()
  it("gives the value and the gradients of its inputs", function()
    local value, grads = neap.value_and_grad(function(x, y) return (x * y):sum() end)(neap.tensor {1, 2},
      neap.tensor {3, 4})
    expect.near(11, value:item())
    expect.near_all({3, 4}, grads[1])
    expect.near_all({1, 2}, grads[2])
  end)

  it("has none for inputs of integers", function()
    local _, grads = neap.value_and_grad(function(scores, y) return neap.cross_entropy(scores, y) end)(
      neap.tensor {{0, 0}}, neap.tensor({1}, {dtype = "int64"}))
    expect.near_all({0.5, -0.5}, grads[1])
    assert.is_false(grads[2])
  end)
end)
