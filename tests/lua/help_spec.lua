local neap = require "neap"
local core = require "neap.core"
local help = require "neap.help"
local expect = require "tests.lua.support.expect"

--- What an example prints, line by line, and what it says that it prints.
local function run(example)
  local printed, told = {}, {}
  local environment = setmetatable({
    neap = neap,
    print = function(...)
      local words = table.pack(...)
      for i = 1, words.n do words[i] = tostring(words[i]) end
      printed[#printed + 1] = table.concat(words, "\t")
    end,
  }, {__index = _G})
  assert(load(example, "=example", "t", environment))()
  for text in example:gmatch "  %-%-> ([^\n]*)" do told[#told + 1] = text end
  return printed, told
end

local function contains(text, words)
  for _, word in ipairs(words) do
    assert(text:find(word, 1, true), ("expected %q in:\n%s"):format(word, text))
  end
end

describe("the examples of all ops", function()
  for _, name in ipairs(help.names()) do
    it("print what they tell: " .. name, function()
      local record = help.record(name)
      local printed, told = run(record.example)
      assert.same(told, printed)
      assert(#told > 0 and record.example:find(name, 1, true))
    end)
  end
end)

describe("help", function()
  it("tells signature, shapes, options, gradient and an example", function()
    contains(neap.help "conv2d", {
      "neap.conv2d(x, weight[, bias], {stride = 1, padding = 0, dilation = 1, groups = 1})",
      "x:conv2d(weight[, bias], {", "weight [out, C / groups, kh, kw]", "[N, out, H', W']",
      "groups    integer of at least 1, default 1.", "It has a gradient", "print(table.concat(y.shape, \" \"))",
    })
    contains(neap.help "softmax", {"neap.softmax(x, dim)", "x:softmax(dim)", "dim  dimension, required."})
    contains(neap.help "mse_loss", {'{reduction = "mean"}', '"mean", "sum" or "none", default "mean".'})
    contains(neap.help "dropout", {"p         number from 0 to 1, default 0.5."})
    contains(neap.help "bernoulli", {"no gradient by nature, draws random numbers"})
    contains(neap.help "cat", {"neap.cat({tensors...}, {dim = 1})"})
    assert.falsy(neap.help("cat"):find(":cat(", 1, true))
    contains(neap.help "einsum", {"neap.einsum(equation, tensors...)"})
    contains(neap.help "full", {"neap.full(shape, value, {dtype = \"fp32\"})"})
  end)

  it("has lines for a terminal", function()
    for _, name in ipairs(help.names()) do
      local text = neap.help(name):match "^(.-)\n\n  "
      for line in text:gmatch "[^\n]+" do
        assert(#line <= 88 or line:find "^[%w_.:]+%(", ("%s has a line of %d: %s"):format(name, #line, line))
      end
    end
  end)

  it("takes names as scripts write them, and the op itself", function()
    local text = neap.help "relu"
    assert.equal(text, neap.help "neap.relu")
    assert.equal(text, neap.help "x:relu")
    assert.equal(text, neap.help(neap.relu))
    assert.equal(text, neap.help(neap.zeros(1).relu))
    assert.equal(neap.help "chunk", neap.help(neap.chunk))
  end)

  it("lists all ops by topic", function()
    local text, n = neap.help() .. "\n", 0
    for _, topic in ipairs(help.topics()) do
      assert(#topic.names > 0, topic.title .. " has no op")
      for _, name in ipairs(topic.names) do
        assert(text:find("[ \n]" .. name .. "[ \n]"), name)
        n = n + 1
      end
    end
    assert.equal(#help.names(), n)
  end)

  it("names what is near when there is no such op", function()
    expect.fails("NOT_FOUND", {'no op "con2d"', "near it is conv2d"}, neap.help, "con2d")
    expect.fails("NOT_FOUND", {"avg_pool2d", "max_pool2d"}, neap.help, "pool")
    expect.fails("NOT_FOUND", {'"softmax_grad"'}, neap.help, "softmax_grad")
    expect.fails("NOT_FOUND", {"neap.help() lists all"}, neap.help, "xyzzy")
    expect.fails("NOT_FOUND", {"no op"}, neap.help, "")
    expect.fails("NOT_FOUND", {"the function is no op"}, neap.help, print)
    expect.fails("INVALID", {"the number 3", "the name of an op"}, neap.help, 3)
    expect.fails("INVALID", {"a table"}, neap.help, {})
  end)
end)

describe("core.op_info", function()
  it("tells what a record says, as scripts write it", function()
    local r = core.op_info "topk"
    assert.same({"k", "dim", "largest"}, {r.options[1].name, r.options[2].name, r.options[3].name})
    assert.equal(true, r.options[1].required)
    assert.equal(0, r.options[1].min)
    assert.equal(-1, r.options[2].default)
    assert.equal(true, r.options[3].default)
    assert.equal("cat", core.op_info("cat").name)
    assert.equal(nil, core.op_info("cat").max_inputs)
    assert.equal(1, core.op_info("cat").options[1].default)
    assert.same({"mean", "sum", "none"}, core.op_info("mse_loss").options[1].choices)
    assert.equal("fp32", core.op_info("full").options[3].default)
    assert.equal(0, core.op_info("full").max_inputs)
    assert.equal(false, core.op_info("full").method)
    assert.equal(2, core.op_info("lstm_scan").results)
    assert.equal("none", core.op_info("argmax").gradient)
    assert.equal(true, core.op_info("rand_like").random)
    assert.equal("f32[2,3]", core.op_info("relu").samples[1])
  end)

  it("knows no ops that scripts do not see", function()
    assert.equal(nil, core.op_info "softmax_grad")
    assert.equal(nil, core.op_info "nothing")
    expect.fails("INVALID", {"the name"}, core.op_info, nil)
    for _, name in ipairs(core.op_names()) do assert(neap[name], name) end
  end)
end)
