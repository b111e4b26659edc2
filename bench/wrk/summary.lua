-- What a run came to, as one line of JSON.
function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    '{"requests":%d,"seconds":%.6f,"failed":%d,"refused":%d,"p50_ms":%.3f,"p99_ms":%.3f}\n',
    summary.requests, summary.duration / 1e6,
    errors.connect + errors.read + errors.write + errors.timeout, errors.status,
    latency:percentile(50) / 1e3, latency:percentile(99) / 1e3
  ))
end
