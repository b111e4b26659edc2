"""The relay's gRPC endpoint; needs the `grpc` extra and is imported only when it is enabled."""
