"""What every HTTP surface shares: routes, bodies, errors, paging, conditional requests, and their client."""
