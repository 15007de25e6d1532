-- build/neap tests/lua/run.lua [busted's options] [files]: runs the specs under this executable.
package.path = "tests/lua/?.lua;" .. package.path
if #arg == 0 then arg[1] = "tests/lua" end
require "busted.runner" {standalone = false}
