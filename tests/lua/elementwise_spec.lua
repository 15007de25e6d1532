local neap = require "neap"
local nn = require "neap.nn"
local expect = require "support.expect"

local function raises(code, fn, ...) return expect.fails(code, {...}, fn) end
local function fp64(t) return neap.tensor(t, {dtype = "fp64"}) end
local function int64(t) return neap.tensor(t, {dtype = "int64"}) end
local function slope(fn, ...)
  local _, grads = neap.value_and_grad(function(...) return fn(...):sum() end)(...)
  return table.unpack(grads)
end
local inf, nan = math.huge, 0 / 0

-- The numbers are PyTorch's, in double precision.
describe("Elementwise functions", function()
  it("are what PyTorch computes", function()
    local x = fp64 {-0.7, 0.1, 0.9}
    expect.near_all({-0.8422883804630794, 0.10033467208545055, 1.2601582175503392}, x:tan(), 1e-14)
    expect.near_all({-0.7753974966107532, 0.1001674211615598, 1.1197695149986342}, x:asin(), 1e-14)
    expect.near_all({2.3461938234056494, 1.4706289056333368, 0.45102681179626236}, x:acos(), 1e-14)
    expect.near_all({-0.8673005276940532, 0.10033534773107558, 1.47221948958322035}, x:atanh(), 1e-14)
    expect.near_all({-0.73286907795921674, 0.08885599049425769, 1.16308715367667426}, x:erfinv(), 1e-15)
    expect.near_all({1.6778011938374184, 0.8875370839817152, 0.20309178757716786}, x:erfc(), 1e-14)
    expect.near_all({0.36788301057177419, 0.98363164308346596, 0.10929240478705181}, x:sinc(), 1e-15)
  end)

  it("invert erf to the last digits, up to its ends", function()
    local x = fp64 {1e-300, -0.5, 0.75, 0.999999999999, 1, -1, 1.5}
    local y = x:erfinv()
    expect.near_all({-0.47693627620446982, 0.8134198475976185, 5.042031898572696}, y:narrow(1, 2, 3), 2e-15)
    expect.near(1, y:select(1, 1):item() / 8.86226925452758e-301, 1e-14)
    assert.same({inf, -inf}, y:narrow(1, 5, 2):totable())
    assert.is_true(y:select(1, 7):isnan():item())
  end)

  it("keep integers where PyTorch does", function()
    local i = int64 {-3, 0, 7}
    for _, name in ipairs {"floor", "ceil", "round", "trunc", "sign", "abs"} do
      assert.equal("int64", i[name](i).dtype, name)
    end
    for _, name in ipairs {"tan", "log2", "softsign", "logsigmoid", "frac"} do
      assert.equal("fp32", i[name](i).dtype, name)
    end
    assert.same({-3, 0, 7}, i:floor():totable())
    raises("DTYPE", function() return neap.tensor({true}):floor() end, "floor", "bool")
  end)

  it("have gradients at their kinks as PyTorch has", function()
    local x = fp64 {-1, -0.5, 0, 0.5, 1}
    assert.same({0, 1, 1, 1, 0}, slope(function(t) return t:clamp(-1, 1) end, x):totable())
    assert.same({1, 0, 0, 0, 1}, slope(neap.hardshrink, x):totable())
    assert.same({1, 0, 0, 0, 1}, slope(neap.softshrink, x):totable())
    assert.same({0, 0, 0, 1, 1}, slope(neap.relu6, x):totable())
    expect.near_all({math.exp(-1), math.exp(-0.5), 1, 1, 1}, slope(neap.celu, x), 1e-15)
    local a, b = slope(neap.atan2, fp64 {0, 1}, fp64 {0, 0})
    assert.same({{0, 0}, {0, -1}}, {a:totable(), b:totable()})
    a, b = slope(neap.hypot, fp64 {0, 3}, fp64 {0, 4})
    expect.near_all({0, 0.6}, a, 1e-15)
    expect.near_all({0, 0.8}, b, 1e-15)
  end)

  it("share the gradient with a bound that is a tensor", function()
    local x, low, high = slope(neap.clamp, fp64 {-2, -1, 0, 1, 2}, fp64 {-1, -1, -1, -1, -1}, fp64 {1, 1, 1, 1, 1})
    assert.same({0, 0.5, 1, 0.5, 0}, x:totable())
    assert.same({1, 0.5, 0, 0, 0}, low:totable())
    assert.same({0, 0, 0, 0.5, 1}, high:totable())
    assert.same({2, 3}, neap.clamp(int64 {1, 5}, int64 {2, 2}, {max = 3}):totable())
    raises("INVALID", function() return neap.clamp(x, low, {min = 1}) end, "`min`", "input")
    raises("INVALID", function() return neap.clamp(x) end, "`min`", "`max`")
  end)

  it("do not overflow", function()
    local x = fp64 {-1000, 0, 1000}
    expect.near_all({-1000, -math.log(2), 0}, x:logsigmoid(), 1e-12)
    expect.near_all({1000, 1000, 1000}, neap.logaddexp(x, 1000), 1)
    assert.same({inf, -inf}, neap.logaddexp(fp64 {inf, -inf}, fp64 {inf, -inf}):totable())
    expect.near(5, neap.hypot(fp64 {3e200}, fp64 {4e200}):item() / 1e200, 1e-14)
    assert.same({0, 0}, slope(neap.xlogy, fp64 {0, 0}, fp64 {0, 0}):totable())
    expect.near_all({0, 0.5 * math.log(2 * 1000 * 0.5)}, neap.xlogy(fp64 {0, 0.5}, fp64 {0, 1000}), 1e-12)
  end)

  it("put numbers in the place of what is none", function()
    local x = neap.tensor {nan, inf, -inf, 2}
    expect.near_all({0, 3.4028234663852886e38, -3.4028234663852886e38, 2}, x:nan_to_num(), 0)
    assert.same({1, 2, 3, 2}, x:nan_to_num {nan = 1, posinf = 2, neginf = 3}:totable())
    assert.same({0, 0, 0, 1}, slope(neap.nan_to_num, x):totable())
    assert.same({{false, true, true, false}, {false, true, false, false}, {false, false, true, false}},
      {x:isinf():totable(), x:isposinf():totable(), x:isneginf():totable()})
  end)

  it("stretch softplus", function()
    expect.near_all({math.log(1 + math.exp(1)) / 2, 2}, fp64 {0.5, 2}:softplus {beta = 2, threshold = 3}, 1e-15)
    raises("RANGE", function() return fp64 {1}:softplus {beta = 0} end, "`beta`")
  end)

  it("blend in the dtype of the result", function()
    local weight = neap.tensor({0, 1, 2}, {dtype = "uint8"})
    assert.same({1, 5, 9}, neap.lerp(neap.tensor {1, 1, 1}, neap.tensor {5, 5, 5}, weight):totable())
    local third = neap.addcdiv(fp64 {0}, neap.tensor {1}, neap.tensor {3})
    assert.same({"fp64", 1 / 3}, {third.dtype, third:item()})
    local one = int64 {1}
    raises("RANGE", function() return neap.addcmul(one, one, one, {value = 0.5}) end, "`value`", "0.5")
  end)
end)

describe("Whole division", function()
  it("goes by the signs as Lua's operators do", function()
    local a, b = {7, -7, 7, -7, 6}, {2, 2, -2, -2, 3}
    for _, make in ipairs {fp64, int64} do
      local x, y = make(a), make(b)
      for i = 1, #a do
        assert.equal(a[i] // b[i], (x // y):totable()[i])
        assert.equal(a[i] % b[i], (x % y):totable()[i])
        assert.equal(math.fmod(a[i], b[i]), neap.fmod(x, y):totable()[i])
      end
      assert.equal(x.dtype, (x // y).dtype)
    end
    assert.same({1, 0, 1}, (int64 {1, 2, 3} % 2):totable())
    assert.same({0, 1, 2}, (7 // fp64 {8, 7, 3}):totable())
  end)

  it("of integers by 0 is 0, and wraps where it overflows", function()
    local least = int64 {math.mininteger}
    assert.same({{0}, {0}, {0}}, {(least // 0):totable(), (least % 0):totable(), neap.fmod(least, 0):totable()})
    assert.same({{math.mininteger}, {0}}, {(least // -1):totable(), (least % -1):totable()})
  end)

  it("is what PyTorch makes of infinity", function()
    assert.same({-1, 0, 0, -1}, (fp64 {-1, 1, -1, 1} // fp64 {inf, inf, -inf, -inf}):totable())
    assert.same({inf, 1, -1, -inf}, (fp64 {-1, 1, -1, 1} % fp64 {inf, inf, -inf, -inf}):totable())
    assert.same({inf, -inf}, (fp64 {1, -1} // 0):totable())
  end)
end)

describe("Bits", function()
  it("have Lua's operators", function()
    local a, b = int64 {12, -1, 5}, int64 {10, 3, 0}
    assert.same({8, 3, 0}, (a & b):totable())
    assert.same({14, -1, 5}, (a | b):totable())
    assert.same({6, -4, 5}, (a ~ b):totable())
    assert.same({-13, 0, -6}, (~a):totable())
    assert.same({24, -2, 10}, (a << 1):totable())
    assert.same({6, -1, 2}, (a >> 1):totable())
    assert.same({0, 0, 0}, (a << 64):totable())
    assert.same({0, -1, 0}, (a >> 64):totable())
  end)

  it("are those of the dtype", function()
    local bytes, flags = neap.tensor({1, 255}, {dtype = "uint8"}), neap.tensor {true, false}
    assert.same({{254, 0}, {2, 254}}, {(~bytes):totable(), (bytes << 1):totable()})
    assert.same({{false, true}, {true, false}}, {(~flags):totable(), (flags & neap.tensor {true, true}):totable()})
    raises("DTYPE", function() return neap.tensor {1} & 1 end, "bitwise_and", "fp32")
    raises("DTYPE", function() return flags << flags end, "bool")
  end)
end)

describe("Comparisons of whole tensors", function()
  local a = neap.tensor {1, 2}
  it("are booleans of Lua", function()
    assert.is_true(neap.equal(a, int64 {1, 2}))
    assert.is_false(neap.equal(a, neap.tensor {{1, 2}}))
    assert.is_false(a:equal(neap.tensor {1, nan}))
    assert.is_true(neap.equal(neap.zeros(0), neap.zeros(0)))
    assert.is_true(neap.allclose(a, a + 1e-6))
    assert.is_false(neap.allclose(a, a + 1e-2))
    assert.is_true(a:allclose(a + 1e-2, {atol = 0.1}))
    assert.is_true(neap.allclose(neap.tensor {nan}, neap.tensor {nan}, {equal_nan = true}))
    assert.same({true, false, true}, neap.isclose(fp64 {inf, inf, 1}, fp64 {inf, -inf, 1 + 1e-9}):totable())
  end)

  it("tell what they cannot compare", function()
    raises("INVALID", function() return neap.equal(a, 1) end, "neap.equal", "input 2", "the number 1")
    raises("INVALID", function() return neap.allclose(nil, a) end, "neap.allclose", "input 1", "nil")
    raises("SHAPE", function() return neap.allclose(a, neap.zeros(3)) end, "[2]", "[3]")
    raises("INVALID", function()
      neap.compile(function(x) return neap.allclose(x, x) and x or -x end)(a)
    end, "neap.allclose", "neap.isclose")
  end)
end)

describe("Activations as layers", function()
  it("are what the ops are, of the new kinds too", function()
    local x = neap.tensor {{-7, -0.5, 0.25, 7}}
    local cases = {
      {nn.Hardsigmoid(), x:hardsigmoid()}, {nn.LogSigmoid(), x:logsigmoid()}, {nn.Softsign(), x:softsign()},
      {nn.Tanhshrink(), x:tanhshrink()}, {nn.SELU(), x:selu()}, {nn.CELU {alpha = 2}, x:celu(2)},
      {nn.Hardshrink {lambd = 0.3}, x:hardshrink(0.3)}, {nn.Softshrink {lambd = 0.3}, x:softshrink(0.3)},
      {nn.Softplus {beta = 2}, x:softplus(2)}, {nn.GLU(), x:glu()}, {nn.Threshold(0.1, 20), x:threshold(0.1, 20)},
    }
    for i, case in ipairs(cases) do assert.equal(case[2]:tobytes(), case[1](x):tobytes(), "case " .. i) end
    raises("INVALID", function() nn.Threshold() end, "nn.Threshold", "threshold", "nil")
    raises("SHAPE", function() nn.GLU()(neap.ones(2, 3)) end, "glu", "3 entries", "even")
  end)
end)
