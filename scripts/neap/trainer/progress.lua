--- How training goes, for people: a bar on a terminal, plain lines elsewhere.
local core = require "neap.core"
local check = require "neap.check"
local report = require "neap.report"

local M = {}

-- Meter ------------------------------------------------------------------------------------------------

local Meter = {}
Meter.__index = Meter

--- Mean loss and speed since the epoch began; or with samples and the sum of their losses before.
function M.meter(samples, sum)
  return setmetatable({samples = samples or 0, sum = sum or 0.0, before = 0}, Meter)
end

function Meter:start()
  if not self.began then self.before, self.began = self.samples, core.clock() end
end

--- Samples of the epoch and the sum of their losses with a batch more.
---@return integer samples, number sum
function Meter:with(size, loss)
  return self.samples + size, self.sum + loss * size
end

--- Samples a second, of those worked on since start().
function Meter:rate(samples)
  local elapsed = self.began and core.clock() - self.began or 0
  return elapsed > 0 and (samples - self.before) / elapsed or 0.0
end

--- Takes what with() said; `ended`: the epoch is done, and another begins.
function Meter:put(samples, sum, ended)
  if ended then
    self.last_mean, self.last_rate = sum / samples, self:rate(samples)
    samples, sum, self.began = 0, 0.0, nil
  end
  self.samples, self.sum = samples, sum
end

---@return number mean, number samples_per_second
function Meter:read()
  return self.samples > 0 and self.sum / self.samples or 0.0, self:rate(self.samples)
end

-- Display ----------------------------------------------------------------------------------------------

local Display = {}
Display.__index = Display

local EVERY_TERMINAL <const>, EVERY_LINES <const>, BAR <const> = 0.1, 5.0, 24 -- seconds, seconds, characters

local function silent() end

--- Where lines go: nowhere when progress is false, to a function, or to standard error.
local function writer(option)
  if option == false or not io then return silent, false end
  if check.is_callable(option) then return option, false end
  local terminal = core.isatty(2)
  return function(text) io.stderr:write(text, terminal and "" or "\n") end, terminal
end

---@param trainer neap.Trainer
---@param goal {epochs: integer?, steps: integer?}
function M.new(trainer, goal)
  local write, terminal = writer(trainer.progress)
  return setmetatable({
    trainer = trainer, goal = goal, write = write, terminal = terminal, shown = core.clock(),
    epochs = trainer.epochs_done,
  }, Display)
end

local function bar(done)
  local n = math.floor(done * BAR + 0.5)
  return "[" .. ("="):rep(n) .. (" "):rep(BAR - n) .. "]"
end

local function place(self, epoch)
  local goal, trainer = self.goal, self.trainer
  if goal.steps then return ("step %d/%d"):format(trainer.steps_done, goal.steps) end
  return ("epoch %d/%d"):format(epoch, goal.epochs)
end

local function text(self, ended)
  local trainer = self.trainer
  local meter = trainer.meter
  local mean, rate = meter:read()
  if ended then mean, rate = meter.last_mean, meter.last_rate end
  local epoch = trainer.epochs_done + (ended and 0 or 1)
  return ("%s  step %d  loss %.4f  %s samples/s  memory %s"):format(place(self, epoch), trainer.steps_done, mean,
    report.count(rate), report.memory_used())
end

local function share(self, ended)
  if ended then return 1.0 end
  local loader = self.trainer.loader
  return loader.dataset.size > 0 and loader.position / loader.dataset.size or 0.0
end

--- After a commit: shows the line when it is time, and at the end of each epoch.
function Display:update()
  local ended, now = self.trainer.epochs_done > self.epochs, core.clock()
  if not ended and now - self.shown < (self.terminal and EVERY_TERMINAL or EVERY_LINES) then return end
  self.shown, self.epochs = now, self.trainer.epochs_done
  if self.terminal then
    self.write("\r\27[K" .. bar(share(self, ended)) .. " " .. text(self, ended) .. (ended and "\n" or ""))
  else
    self.write(text(self, ended))
  end
end

--- Leaves the terminal's cursor on a fresh line.
function Display:close()
  if self.terminal then self.write("\r\27[K") end
end

return M
