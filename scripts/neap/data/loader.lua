--- The loader: batches of an epoch in an order that seed and epoch alone decide, whatever the batch size.
local check = require "neap.check"
local random = require "neap.data.random"

--- A table with the dataset's fields, or those that `transform` left, and these:
---@class neap.Batch
---@field size integer samples
---@field indices integer[] which samples of the dataset, from 1
---@field epoch integer
---@field position integer samples of the epoch before this batch

--- Where it is, is a place in the order of the samples of an epoch: which batch size is in force changes nothing of
--- that order, so a batch that had to shrink neither repeats nor loses a sample.
---@class neap.Loader
---@field batch_size integer
local Loader = {__name = "neap.loader"}
Loader.__index = Loader

local M = {}

local specs = {
  dataset = {kind = "table", required = true},
  batch_size = {kind = "integer", min = 1, default = 1},
  shuffle = {kind = "boolean", default = false},
  seed = {kind = "integer", default = 0},
  drop_last = {kind = "boolean", default = false},
  workers = {kind = "integer", min = 0, default = 0},
  transform = {kind = "callable"},
}

---@class neap.LoaderOptions
---@field dataset neap.Dataset one of `neap.data`, or any table with `size` and `fetch`
---@field batch_size? integer samples (default 1)
---@field shuffle? boolean another order each epoch, which seed and epoch alone decide (default false)
---@field seed? integer of the order; in a trainer with `seed`, that one unless said here (default 0)
---@field drop_last? boolean leave out the last batch of an epoch when it is smaller (default false)
---@field workers? integer threads that load; only 0, the script's own, in this build (default 0)
---@field transform? fun(batch: neap.Batch): neap.Batch? changes a batch on its way, or returns another

--- Batches of a dataset.
---@param options neap.LoaderOptions
---@return neap.Loader
function M.new(options)
  local o = check.options("data.loader", options, specs)
  if math.type(o.dataset.size) ~= "integer" or not check.is_callable(o.dataset.fetch) then
    check.fail("INVALID", "data.loader: dataset is %s without size and fetch, expected one of neap.data",
               check.describe(o.dataset))
  end
  if o.workers > 0 then
    check.fail("UNSUPPORTED", "data.loader: workers is %d; this build loads on the script's thread (workers = 0)",
               o.workers)
  end
  o.epoch_number, o.position, o.seed_given = 1, 0, type(options.seed) == "number"
  return setmetatable(o, Loader)
end

--- Whether v is a loader.
---@param v any
---@return boolean
function M.is_loader(v)
  return type(v) == "table" and getmetatable(v) == Loader
end

--- The order of the samples of this epoch.
local function order(self)
  if self.order_of ~= self.epoch_number then
    self.order = random.permutation(self.dataset.size, random.key(self.seed, self.epoch_number))
    self.order_of = self.epoch_number
  end
  return self.order
end

local function take_indices(self, position, count)
  local indices = {}
  if not self.shuffle then
    for i = 1, count do indices[i] = position + i end
    return indices
  end
  return table.move(order(self), position + 1, position + count, 1, indices)
end

--- Samples of the batch at a position; 0 at the end of the epoch.
local function size_at(self, position)
  local left = self.dataset.size - position
  if self.drop_last and left < self.batch_size then return 0 end
  return math.max(0, math.min(left, self.batch_size))
end

--- Where a batch lies is for the loader to say, whatever a transform writes there.
local function fetch(self, position, count)
  local indices = take_indices(self, position, count)
  local batch = self.dataset:fetch(indices)
  batch.size, batch.indices, batch.epoch, batch.position = count, indices, self.epoch_number, position
  if not self.transform then return batch end
  local changed = self.transform(batch)
  if changed == nil then changed = batch end
  check.value("data.loader", "what transform returned", changed, {kind = "table"})
  changed.size, changed.indices, changed.epoch, changed.position = count, indices, self.epoch_number, position
  return changed
end

--- Whether the epoch has no further batch.
---@return boolean
function Loader:is_exhausted()
  return size_at(self, self.position) == 0
end

--- The next batch, without taking it: the place stays. nil at the end of the epoch.
---@return neap.Batch?
function Loader:peek()
  local count = size_at(self, self.position)
  return count > 0 and fetch(self, self.position, count) or nil
end

--- The next batch; nil once at the end of each epoch, after which the next epoch begins.
---@return neap.Batch?
function Loader:next()
  local batch = self:peek()
  if batch then
    self.position = batch.position + batch.size
  else
    self.epoch_number, self.position = self.epoch_number + 1, 0
  end
  return batch
end

--- Where the loader will be once a batch of it has been used: the place after it, or the next epoch's beginning.
---@param batch neap.Batch
---@return integer epoch
---@return integer position samples of that epoch before it
function Loader:place_after(batch)
  local position = batch.position + batch.size
  if size_at(self, position) == 0 then return batch.epoch + 1, 0 end
  return batch.epoch, position
end

--- Goes to a place in the order of the samples.
---@param epoch integer
---@param position integer samples of the epoch before it
function Loader:go_to(epoch, position)
  self.epoch_number, self.position = epoch, position
end

--- The first samples of this epoch's order, for whoever wants to see their shapes; the place stays.
---@param count integer samples
---@return neap.Batch
function Loader:sample(count)
  return fetch(self, 0, count)
end

--- A loader over the same samples that begins at the first epoch; this one's place stays.
---@return neap.Loader
function Loader:from_start()
  local copy = setmetatable({}, Loader)
  for name, v in pairs(self) do copy[name] = v end
  copy.epoch_number, copy.position, copy.resumed = 1, 0, nil
  return copy
end

--- Iterates over the batches of epoch n, from its beginning; after load_state, from where that was.
---@param n? integer from 1; the epoch it is at when left out
---@return fun(): neap.Batch? to be used in a `for`
function Loader:epoch(n)
  n = check.value("loader:epoch", "the number of the epoch", n or self.epoch_number, {kind = "integer", min = 1})
  if not (self.resumed and self.epoch_number == n) then self.epoch_number, self.position = n, 0 end
  self.resumed = nil
  return function()
    if self.epoch_number ~= n then return nil end
    return self:next()
  end
end

--- Gives the batch taken last back: it will be taken again, in whatever size is then in force.
---@param batch neap.Batch
function Loader:put_back(batch)
  if batch.epoch ~= self.epoch_number or batch.position + batch.size ~= self.position then
    check.fail("INVALID", "loader:put_back: the batch at position %d of epoch %d is not the one taken last",
               batch.position, batch.epoch)
  end
  self.position = batch.position
end

--- Batches of n samples from now on; every sample of the epoch is still taken once.
---@param n integer
function Loader:set_batch_size(n)
  self.batch_size = check.value("loader:set_batch_size", "the batch size", n, {kind = "integer", min = 1})
end

--- Batches of a whole epoch.
---@return integer
function Loader:batches()
  local whole, rest = self.dataset.size // self.batch_size, self.dataset.size % self.batch_size
  return whole + ((rest > 0 and not self.drop_last) and 1 or 0)
end

--- Where the loader is, as a plain table: `{epoch =, position =, batch_size =, seed =}`.
---@return table
function Loader:state()
  return {epoch = self.epoch_number, position = self.position, batch_size = self.batch_size, seed = self.seed}
end

--- Raises unless a state is one of a loader over as many samples; returns its fields.
---@package
---@param saved table
---@return table
function Loader:check_state(saved)
  check.value("loader:load_state", "the state", saved, {kind = "table"})
  local what, min = "loader:load_state", {epoch = 1, position = 0, batch_size = 1, seed = math.mininteger}
  local new = {}
  for name, least in pairs(min) do
    new[name] = check.value(what, name, saved[name], {kind = "integer", min = least})
  end
  if new.position > self.dataset.size then
    check.fail("RANGE", "%s: position is %d but the dataset has %d samples", what, new.position, self.dataset.size)
  end
  return new
end

--- Goes to a place that state() gave.
---@param saved table
function Loader:load_state(saved)
  local new = self:check_state(saved)
  if new.seed ~= self.seed then self.order_of = nil end
  self.epoch_number, self.position, self.batch_size, self.seed = new.epoch, new.position, new.batch_size, new.seed
  self.resumed = true
end

return M
