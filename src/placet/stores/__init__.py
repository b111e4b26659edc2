"""Where cases are kept, one folder per engine; no engine knows another."""
