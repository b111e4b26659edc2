"""The relay's door for callers that speak gRPC; it needs the `grpc` extra and is read only if it is open."""
