-- The runnable scripts in small, each in a process of its own.
local expect = require "support.expect"
local png = require "scripts.png"
local options = require "scripts.options"

local function interpreter()
  local i = -1
  while arg[i - 1] do i = i - 1 end
  return arg[i]
end

--- What a script prints, errors included, and its exit code.
local function run(words)
  local pipe = assert(io.popen(("'%s' %s 2>&1"):format(interpreter(), words)))
  local text = pipe:read "a"
  local _, _, code = pipe:close()
  return text, code
end

local function numbers(text, pattern)
  local list = {}
  for v in text:gmatch(pattern) do list[#list + 1] = tonumber(v) end
  return list
end

describe("scripts/options.lua", function()
  local defaults = {steps = 10, rate = 0.5, out = "a.h5", resume = false, batch = options.at_least(1, 4)}

  it("keeps defaults and reads values of their types", function()
    assert.same({steps = 10, rate = 0.5, out = "a.h5", resume = false, batch = 4}, options.read(defaults, {}))
    local o = options.read(defaults, {"--steps", "7", "--rate", "2", "--resume", "b.h5"})
    assert.same({steps = 7, rate = 2, out = "a.h5", resume = "b.h5", batch = 4}, o)
    assert.equal("integer", math.type(o.steps))
  end)

  it("names what it does not understand", function()
    for _, case in ipairs {
      {{"--stepz", "1"}, "--stepz"}, {{"steps", "1"}, "--out, --rate"}, {{"--steps"}, "needs a value"},
      {{"--steps", "1.5"}, "whole number"}, {{"--rate", "fast"}, "fast"}, {{"--rate", "-1"}, "at least 0"},
      {{"--rate", "nan"}, "nan"}, {{"--rate", "inf"}, "inf"}, {{"--batch", "0"}, "at least 1"},
    } do
      local message = tostring(expect.error_of(options.read, defaults, case[1]))
      assert.truthy(message:find(case[2], 1, true), message)
    end
  end)
end)

describe("Every runnable script", function()
  local names = {"train_digits", "train_gan", "train_gpt", "train_policy"}

  it("tells what it does and its options when asked for help", function()
    for _, name in ipairs(names) do
      local text, code = run(("scripts/%s.lua --help"):format(name))
      assert.equal(0, code, text)
      assert.truthy(text:find("^Learns") or text:find("learns"), text)
      assert.truthy(text:find(("build/neap .*scripts/%s.lua"):format(name)), text)
      assert.truthy(text:find "Exit codes: 0", text)
      for option in text:gmatch "%[%-%-(%w+)" do
        assert.truthy(text:find(("\n  %%-%%-%s +%%S"):format(option)), option .. " is not in\n" .. text)
      end
      for option in text:gmatch "\n  %-%-(%w+)" do
        assert.truthy(text:find(("[--%s "):format(option), 1, true), option .. " is not in\n" .. text)
      end
    end
  end)

  it("ends with exit code 1 and a word about a wrong option", function()
    for _, name in ipairs(names) do
      for words, expected in pairs {
        ["--no-such 1"] = 'there is no option "--no-such"', ["--wrong 1"] = "--help", stray = "stray",
        ["--batch"] = name == "train_policy" and "--batch" or "needs a value",
        [name == "train_policy" and "--carts 0" or "--batch 0"] = 'is "0", expected a whole number of at least 1',
      } do
        local text, code = run(("scripts/%s.lua %s"):format(name, words))
        assert.equal(1, code, text)
        assert.truthy(text:find(expected, 1, true), text)
        assert.falsy(text:find "traceback", text)
      end
    end
  end)
end)

describe("scripts/png.lua", function()
  it("writes the bytes that zlib's stored blocks have", function()
    local hex = png.encode {"\x00\xff\x80", "\x01\x02\x03"}:gsub(".", function(c) return ("%02x"):format(c:byte()) end)
    assert.equal("89504e470d0a1a0a0000000d4948445200000003000000020800000000b81f39c6000000134944415478010108"
      .. "00f7ff0000ff8000010203088c0186ca46f4b00000000049454e44ae426082", hex)
  end)

  it("puts images side by side, what is missing black", function()
    local rows = png.sheet({{{0, 1}}, {{0.5, 2}}, {{1, -1}}}, 2)
    local blank = ("\0"):rep(8)
    assert.same({blank, "\0\0\xff\0\0\x80\xff\0", blank, blank, "\0\xff\0\0\0\0\0\0", blank}, rows)
  end)
end)

describe("scripts/train_policy.lua", function()
  it("keeps the pole up for longer", function()
    local text, code = run "scripts/train_policy.lua --target 60 --steps 100000"
    assert.equal(0, code, text)
    assert.is_true(numbers(text, "mean return ([%d.]+) over 100 fresh episodes")[1] >= 60, text)
  end)

  it("says when the steps did not suffice", function()
    local text, code = run "scripts/train_policy.lua --steps 2048"
    assert.equal(1, code, text)
    assert.truthy(text:find("2048 steps did not bring a mean return of 475.0", 1, true), text)
  end)
end)

describe("scripts/train_gpt.lua", function()
  local text_file, checkpoint

  before_each(function()
    text_file, checkpoint = expect.path ".txt", expect.path ".h5"
    local file <close> = assert(io.open(text_file, "wb"))
    file:write(("a stitch in time\nsaves nine, they say. "):rep(60))
  end)
  after_each(expect.remove_files)

  local function train(more)
    return run(("--memory 4MiB scripts/train_gpt.lua --text '%s' --out '%s' --layers 1 --width 16 --heads 2 "
      .. "--context 16 --batch 16 --rate 0.02 --every 20 %s"):format(text_file, checkpoint, more))
  end

  it("predicts unseen text better and better, and goes on from its checkpoint", function()
    local text, code = train "--steps 60"
    assert.equal(0, code, text)
    local losses = numbers(text, "validation loss ([%d.]+) nats")
    assert.equal(3, #losses)
    assert.is_true(losses[1] > losses[2] and losses[3] < 1.5, text)
    text, code = train(("--steps 80 --resume '%s'"):format(checkpoint))
    assert.equal(0, code, text)
    assert.equal(1, #numbers(text, "step 80, %d+ s: validation loss ([%d.]+)"), text)
    assert.is_true(numbers(text, "validation loss ([%d.]+) nats")[1] < losses[2], text)
  end)

  it("refuses a text that is too short", function()
    local file <close> = assert(io.open(text_file, "wb"))
    file:write "short"
    file:flush()
    local text, code = train "--steps 1"
    assert.equal(1, code)
    assert.truthy(text:find("has 5 characters, expected at least 340", 1, true), text)
  end)
end)

describe("scripts/train_gan.lua", function()
  after_each(expect.remove_files)

  it("tells real from drawn better than by chance, and draws a sheet", function()
    local out = expect.path ".png"
    local text, code = run(("scripts/train_gan.lua --width 2 --latent 8 --steps 30 --out '%s'"):format(out))
    assert.equal(0, code, text)
    assert.is_true(numbers(text, "critic ([%d.]+)")[1] < 2 * math.log(2), text)
    local file <close> = assert(io.open(out, "rb"))
    local bytes = file:read "a"
    assert.equal("\x89PNG\r\n\x1a\n", bytes:sub(1, 8))
    assert.equal(string.pack(">I4I4", 240, 240), bytes:sub(17, 24))
    assert.equal("IEND", bytes:sub(-8, -5))
  end)
end)

describe("every model", function()
  it("learns to the same bits with one, two and three threads", function()
    local one, code = run "--threads 1 tests/lua/support/model_bits.lua"
    assert.equal(0, code, one)
    assert.equal(9, #numbers(one, "[%w_]+ %x+\n()"), one)
    for n = 2, 3 do assert.equal(one, (run(("--threads %d tests/lua/support/model_bits.lua"):format(n)))) end
  end)

  it("learns to the same bits in micro-batches of whole slabs, where samples do not depend on each other", function()
    local whole, cut = run "tests/lua/support/model_bits.lua", (run "tests/lua/support/model_bits.lua 8")
    local compared = 0
    for line in cut:gmatch "[^\n]+" do
      compared = compared + 1
      assert.truthy(whole:find(line, 1, true), line .. " is not in\n" .. whole)
    end
    assert.equal(6, compared)
  end)
end)
