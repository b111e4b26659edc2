"""How calls reach the relay: A2A over HTTP and gRPC, webhooks, and the admin API."""
