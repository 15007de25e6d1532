local neap = require "neap"
local expect = require "support.expect"
local nn = neap.nn

local function grads()
  return {a = neap.tensor {3, -4}, b = neap.tensor({{12}}, {dtype = "fp64"}), c = neap.zeros(0)}
end

describe("Clipping gradients in a table", function()
  -- torch.nn.utils.clip_grad_norm_ gives 13 and multiplies by 2 / (13 + 1e-6).
  it("by norm multiplies all by one number, and returns the norm", function()
    local g = grads()
    expect.near(13, nn.clip_grad_norm_(g, 2))
    expect.near(3 * 2 / 13.000001, g.a:totable()[1])
    expect.near(12 * 2 / 13.000001, g.b:totable()[1][1], 1e-12)
    assert.equal("fp64", g.b.dtype)
    expect.near(2, nn.clip_grad_norm_(g, 5))
    expect.near(12 * 2 / 13.000001, g.b:totable()[1][1], 1e-12)
  end)

  it("knows other norms", function()
    expect.near(19, nn.clip_grad_norm_(grads(), 100, {norm_type = 1}))
    local g = grads()
    expect.near(12, nn.clip_grad_norm_(g, 6, {norm_type = math.huge}))
    expect.near(-2, g.a:totable()[2])
  end)

  it("by value holds each element", function()
    local g = grads()
    nn.clip_grad_value_(g, 3.5)
    assert.same({3, -3.5}, g.a:totable())
    assert.same({{3.5}}, g.b:totable())
  end)

  it("takes what nn.value_and_grad gives, before a step", function()
    local fc = nn.Linear(2, 1)
    local _, g = nn.value_and_grad(fc, function(x) return (fc(x) * 100):sum() end)(neap.ones(3, 2))
    nn.clip_grad_norm_(g, 1)
    expect.near(1, nn.clip_grad_norm_(g, 10), 1e-5)
    neap.optim.sgd {params = fc, lr = 1}:step(g)
  end)

  it("names what is wrong", function()
    expect.fails("INVALID", {"clip_grad_norm_", '"a"', "the number 1"}, nn.clip_grad_norm_, {a = 1}, 1)
    expect.fails("INVALID", {"max_norm", "-1"}, nn.clip_grad_norm_, grads(), -1)
    expect.fails("INVALID", {"gradients", "nil"}, nn.clip_grad_norm_, nil, 1)
    expect.fails("INVALID", {"clip_grad_value_", "nil"}, nn.clip_grad_value_, grads())
    local bad = {a = neap.tensor {0 / 0}}
    expect.fails("INVALID", {"norm", "nan"}, nn.clip_grad_norm_, bad, 1, {error_if_nonfinite = true})
    local norm = nn.clip_grad_norm_(bad, 1)
    assert.is_true(norm ~= norm)
  end)
end)
