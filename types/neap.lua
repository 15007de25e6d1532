---@meta neap
-- What the engine itself gives to scripts. Written by hand: there is no Lua source to read it from.

---@class neap
---@field version string "0.1.0"
---@field nn neap.nn
---@field optim neap.optim
---@field data neap.data
---@field policy neap.policy
---@field action neap.action
---@field hdf5 neap.hdf5
local neap = {}

---@alias neap.DType
---| "fp32" # the default
---| "fp64"
---| "fp16" # storage only so far
---| "bf16" # storage only so far
---| "int64"
---| "int32"
---| "uint8"
---| "bool"

-- Tensors ----------------------------------------------------------------------------------------------

--- Dense values in the engine's memory, or, while a function is traced, a symbol that stands for such. Every op is a
--- method too: `x:relu()`, `x:sum(1)`. `+ - * / // % ^` and unary `-` work element by element and broadcast, of integers also `& | ~ << >>`; comparisons
--- are the methods `eq ne lt le gt ge`, since Lua turns what `<` gives into one boolean.
---@class neap.Tensor
---@field shape integer[] a new table at each access
---@field dtype neap.DType
---@field ndim integer
---@operator add(neap.Tensor|number): neap.Tensor
---@operator sub(neap.Tensor|number): neap.Tensor
---@operator mul(neap.Tensor|number): neap.Tensor
---@operator div(neap.Tensor|number): neap.Tensor
---@operator pow(neap.Tensor|number): neap.Tensor
---@operator mod(neap.Tensor|number): neap.Tensor
---@operator idiv(neap.Tensor|number): neap.Tensor
---@operator band(neap.Tensor|integer): neap.Tensor
---@operator bor(neap.Tensor|integer): neap.Tensor
---@operator bxor(neap.Tensor|integer): neap.Tensor
---@operator shl(neap.Tensor|integer): neap.Tensor
---@operator shr(neap.Tensor|integer): neap.Tensor
---@operator unm: neap.Tensor
---@operator bnot: neap.Tensor
---@field [integer] neap.Tensor
---@field [table] neap.Tensor
local Tensor = {}

--- How many elements there are.
---@return integer
function Tensor:numel() end

--- The value of a tensor of one element. Not inside a traced function, where values are not known yet.
---@return number|integer|boolean
function Tensor:item() end

--- The values as nested tables; of a scalar, the value.
---@return table|number|boolean
function Tensor:totable() end

--- The values as bytes, in the machine's order, row by row.
---@return string
function Tensor:tobytes() end

--- A copy with memory of its own.
---@return neap.Tensor
function Tensor:clone() end

--- The same values, through which no gradient flows. Shares memory.
---@return neap.Tensor
function Tensor:detach() end

--- Writes values over the old ones, converted and broadcast to this tensor's dtype and shape. Not inside a traced
--- function; there `neap.assign` writes when the update commits.
---@param values neap.Tensor|number|boolean
---@return neap.Tensor self
function Tensor:copy_(values) end

--- Gives the memory back at once, without waiting for the garbage collector. Views of it and programs that use it
--- raise from then on. `local x <close> = ...` does it at the end of a scope. A second call does nothing.
function Tensor:close() end

---@class neap.TensorOptions
---@field dtype? neap.DType (default "fp32", of booleans "bool")
---@field shape? integer[] another shape of as many elements

--- A tensor of a number, a boolean or nested tables of them. Integers give `fp32`, too, unless `dtype` says otherwise:
--- most tensors are for networks. Ragged tables are refused with the position.
---@param value number|boolean|table
---@param options? neap.TensorOptions
---@return neap.Tensor
function neap.tensor(value, options) end

---@class neap.DTypeOptions
---@field dtype? neap.DType (default "fp32")

--- All zeros: `neap.zeros(2, 3)` or `neap.zeros({2, 3}, {dtype = "int64"})`.
---@param ... integer|integer[]|neap.DTypeOptions the sizes, or a list of them, then options (dtype)
---@return neap.Tensor
function neap.zeros(...) end

--- All ones; arguments as for `neap.zeros`.
---@param ... integer|integer[]|neap.DTypeOptions
---@return neap.Tensor
function neap.ones(...) end

--- All of one value. A boolean gives `bool`, a number `fp32`, unless `dtype` says otherwise.
---@param shape integer[]
---@param value number|boolean
---@param options? neap.DTypeOptions
---@return neap.Tensor
function neap.full(shape, value, options) end

--- Zeros in the shape and dtype of a tensor.
---@param x neap.Tensor
---@param options? {dtype: neap.DType}
---@return neap.Tensor
function neap.zeros_like(x, options) end

--- Ones in the shape and dtype of a tensor.
---@param x neap.Tensor
---@param options? {dtype: neap.DType}
---@return neap.Tensor
function neap.ones_like(x, options) end

--- One value in the shape and dtype of a tensor.
---@param x neap.Tensor
---@param value number|boolean
---@param options? {dtype: neap.DType}
---@return neap.Tensor
function neap.full_like(x, value, options) end

--- `steps` numbers from start to stop, both included, at equal distances. `fp32`, unless `dtype` says otherwise.
---@param start number
---@param stop number
---@param steps integer
---@param options? neap.DTypeOptions
---@return neap.Tensor
function neap.linspace(start, stop, steps, options) end

--- `base` (10) to the powers of `neap.linspace(start, stop, steps)`.
---@param start number
---@param stop number
---@param steps integer
---@param options? {dtype: neap.DType, base: number}
---@return neap.Tensor
function neap.logspace(start, stop, steps, options) end

--- `neap.arange(stop)` or `neap.arange(start, stop[, step])`: start, start + step, ... before stop. Values count from 0
--- as data does: `neap.arange(3)` is 0, 1, 2. All integers give `int64`, else `fp32`.
---@param ... number|neap.DTypeOptions one to three numbers, then options (dtype)
---@return neap.Tensor
function neap.arange(...) end

--- A tensor out of the memory of a dense one, in the machine's byte order; the inverse of `tensor:tobytes`.
---@param bytes string
---@param options? neap.TensorOptions without a shape it is a vector
---@return neap.Tensor
function neap.from_bytes(bytes, options) end

--- Whether v is a tensor.
---@param v any
---@return boolean
function neap.is_tensor(v) end

--- Writes to a tensor: at once, or, in a traced function, when all else has been computed (in the loss function of an
--- update: when the update commits). What reads the tensor later in the same function sees what was assigned, as it
--- would outside. So are moving averages and target networks kept, all or nothing with the step.
---@param target neap.Tensor a parameter, a buffer or any tensor made outside
---@param value neap.Tensor|number converted and broadcast to the target's dtype and shape
function neap.assign(target, value) end

-- Random numbers ---------------------------------------------------------------------------------------

--- A stream of random numbers (Philox 4x32-10: Salmon et al. 2011) apart from the engine's own, which it neither
--- moves nor depends on.
---@class neap.Generator
local Generator = {}

--- Where the stream is: `{seed =, position =}`, plain data to save.
---@return {seed: integer, position: integer}
function Generator:state() end

--- Goes to a place that `state()` gave.
---@param state {seed: integer, position: integer}
---@return neap.Generator self
function Generator:load_state(state) end

--- A stream of one's own, for `{generator =}` of the functions below.
---@param options? {seed: integer} 0 when left out
---@return neap.Generator
function neap.generator(options) end

--- Uniform in [0, 1): `neap.rand(2, 3)` or `neap.rand({2, 3}, {dtype = "fp64", generator = g})`. Draws are made at once;
--- inside a traced function they are refused, since a trace would keep the numbers it saw.
---@param ... integer|integer[]|table the sizes, or a list of them, then options: dtype ("fp32" or "fp64"), generator
---@return neap.Tensor
function neap.rand(...) end

--- Normal with mean 0 and variance 1 (Box and Muller 1958); arguments as for `neap.rand`.
---@param ... integer|integer[]|table
---@return neap.Tensor
function neap.randn(...) end

--- Whole numbers from low to high - 1, `int64`.
---@param low integer
---@param high integer above low
---@param ... integer|integer[]|table the sizes, or a list of them, then options: generator
---@return neap.Tensor
function neap.randint(low, high, ...) end

--- The numbers 0 to n - 1 in random order, `int64`: indices for `index_select`.
---@param n integer
---@param options? {generator: neap.Generator}
---@return neap.Tensor
function neap.randperm(n, options) end

---@class neap.MultinomialOptions
---@field replacement? boolean may the same place be drawn again (default false)
---@field generator? neap.Generator

--- Places drawn by weight, from 0, `int64`: n of each row.
---@param weights neap.Tensor [m] or [rows, m], finite and at least 0; they need not add up to 1
---@param n integer
---@param options? neap.MultinomialOptions
---@return neap.Tensor # [n] or [rows, n]
function neap.multinomial(weights, n, options) end

-- Memory and the device --------------------------------------------------------------------------------

--- Bytes. `in_use` and all above it count device memory, which is what the budget limits.
---@class neap.Memory
---@field in_use integer by tensors and programs
---@field peak integer of in_use since the start or `neap.reset_peak`
---@field budget integer? the limit; nil when none is set
---@field reserved integer in_use and what is kept for reuse: this is held against the budget
---@field reserved_peak integer
---@field largest_free integer the largest block that could be had
---@field third_party integer what the process grew by beside all that is counted: libraries' own memory; measured
---@field host integer host memory of the engine
---@field by_owner table<string, integer> in_use by parameters, gradients, optimizer, activations, workspace, tensors, staging, checkpoint and cache

--- How memory stands.
---@return neap.Memory
function neap.memory() end

--- Begins to measure `peak` anew.
function neap.reset_peak() end

--- Gives back to the system what is idle: arenas that no run holds, and what is kept for reuse. The engine does this
--- by itself before it refuses anything.
function neap.release() end

--- Sets the budget of device memory. `"next"`: an unfinished update keeps what it has, and nothing is taken beyond
--- the limit from now on. `"now"`: an unfinished update is dropped, which leaves everything as it was before it, and
--- memory is given back before this returns; raises `OOM` when parameters and what else must stay are more than the
--- limit, which holds all the same.
---@param limit integer|string? bytes, or text as "64MiB"; nil for none
---@param when? "next"|"now" (default "next")
function neap.set_memory_limit(limit, when) end

--- "64MiB" as 67108864. KiB, MiB, GiB and TiB are powers of 1024; kB, MB, GB and TB of 1000; K, M, G and T of 1024.
---@param text string|integer
---@return integer
function neap.parse_bytes(text) end

--- 67108864 as "64.0 MiB".
---@param bytes number
---@return string
function neap.format_bytes(bytes) end

--- The name of the device: "cpu".
---@return string
function neap.device() end

--- Seconds of a clock that only goes forward, for measuring; it begins anywhere.
---@return number
function neap.clock() end

-- In a host --------------------------------------------------------------------------------------------

--- Registers what the host's `neap_tick` advances: a function that is called with the milliseconds it may use, or an
--- object with a method `step(self, {budget_ms =})`, as a trainer has. What it returns (or the field `state` of a
--- table it returns) tells what the engine cannot see: `"waiting"` (for data), `"stopped"` (for good), `"prepare"`
--- (tracing is due). Several take turns.
---@param ticker fun(budget_ms: number): string?|table
---@return any ticker
function neap.on_tick(ticker) end

--- Takes off what `on_tick` registered.
---@param ticker any
---@return boolean # whether it was registered
function neap.off_tick(ticker) end

--- Registers what the host's `neap_prepare` calls, at a loading screen: trace and plan there, as `update:prepare` does.
---@param fn fun()
---@return function fn
function neap.on_prepare(fn) end

--- Makes a program that the host runs without Lua (`neap_program_find`, `neap_program_run`) and that sees the
--- parameters of the last commit. Exporting under the same name again puts a new program in its place, with the same
--- shapes.
---@param name string
---@param fn function|neap.Module of tensors
---@param shapes table[] a shape for each input, as `{1, 4}` or `{1, 4, dtype = "int64"}`; or tensors like them
function neap.export(name, fn, shapes) end

-- Errors -----------------------------------------------------------------------------------------------

--- What misuse raises, and what comes second after nil when something expected failed (no such file). `tostring(err)`
--- and `..` give the message with its place.
---@class neap.Error
---@field code string "SHAPE", "DTYPE", "RANGE", "INVALID", "OOM", "IO", "NOT_FOUND", "CORRUPT", "UNSUPPORTED", "BUSY", "CLOSED", "STOPPED", ...: the statuses of the C interface without NEAP_
---@field message string names the thing, its value and what was expected
---@field op string? the op or function
---@field shapes string? of the op's inputs
---@field where string? line of the script, "train.lua:12"
---@field bytes integer? what was asked for, of an OOM
---@field exit_code integer? what the executable ends with, of a STOPPED

-- HDF5 -------------------------------------------------------------------------------------------------

---@class neap.hdf5
local hdf5 = {}

--- A whole file as nested tables: a dataset is a tensor, a string a string, a group a table, attributes a table under
--- `attributes`. External links, virtual datasets and filter plug-ins are refused.
---@param path string
---@return table? items nil when it cannot be read
---@return neap.Error? err
function hdf5.read(path) end

--- Writes nested tables in that layout. The file is written beside the path, synced, and moved there whole: what was
--- there stays until then.
---@param path string
---@param items table tensors and tables by name; plain values go under `attributes`
---@return true? ok
---@return neap.Error? err when the disk refuses
function hdf5.write(path, items) end

--- Opens a file to read parts of it.
---@param path string
---@param options? {cache: integer} bytes of decompressed chunks that are kept; 64 MiB when left out
---@return neap.hdf5.File? file
---@return neap.Error? err
function hdf5.open(path, options) end

--- An open file; it is closed at the end of a scope (`<close>`) or when it is garbage.
---@class neap.hdf5.File
local File = {}

--- A dataset by its path in the file.
---@param path string
---@return neap.hdf5.Dataset?
---@return neap.Error? err
function File:dataset(path) end

--- Paths of all datasets and strings, in the file's order.
---@return string[]
function File:items() end

--- Attributes of the file or of an item.
---@param path? string
---@return table?
---@return neap.Error? err
function File:attributes(path) end

--- Closes the file and its datasets.
function File:close() end

--- A dataset of an open file, read when it is asked for.
---@class neap.hdf5.Dataset
---@field shape integer[]
---@field dtype neap.DType
---@field path string
local Dataset = {}

--- Rows that follow one another.
---@param start integer from 1
---@param count integer
---@return neap.Tensor
function Dataset:rows(start, count) end

--- Listed rows in that order.
---@param list integer[] from 1
---@return neap.Tensor
function Dataset:gather(list) end

--- All of it, held against its checksum if the file has one.
---@return neap.Tensor
function Dataset:read() end

return neap
