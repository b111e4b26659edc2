CREATE INDEX holds_of_source ON holds (tenant, source, status, created_at);
