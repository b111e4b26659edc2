-- Requests that can be repeated: one GET after the other over the paths of a file, round and round.
require("summary")

local requests, at = {}, 0

function init(args)
  for path in io.lines(args[1]) do
    requests[#requests + 1] = wrk.format("GET", path)
  end
end

function request()
  at = at % #requests + 1
  return requests[at]
end
