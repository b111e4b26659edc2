-- Until when a case waits and when it was closed, each in one index of its own for lists of either.
ALTER TABLE cases ADD COLUMN waits_until INTEGER;
ALTER TABLE cases ADD COLUMN closed_at INTEGER;

UPDATE cases SET waits_until = (
  SELECT unixepoch(substr(moment, 1, 19)) * 1000000
    + CASE substr(moment, 20, 1) WHEN '.' THEN CAST(substr(moment, 21, 6) AS INTEGER) ELSE 0 END
  FROM (SELECT json_extract(CAST(state AS TEXT), '$.expires_at') AS moment)
) WHERE status IN ('pending', 'opened', 'in_progress');

UPDATE cases SET closed_at = (
  SELECT unixepoch(substr(moment, 1, 19)) * 1000000
    + CASE substr(moment, 20, 1) WHEN '.' THEN CAST(substr(moment, 21, 6) AS INTEGER) ELSE 0 END
  FROM (SELECT json_extract(CAST(state AS TEXT), '$.closed_at') AS moment)
) WHERE status IN ('completed', 'expired', 'cancelled') AND number IN (SELECT case_number FROM offers);

CREATE INDEX cases_waiting ON cases (owner, waits_until) WHERE waits_until IS NOT NULL;
CREATE INDEX cases_closed ON cases (owner, closed_at) WHERE closed_at IS NOT NULL;
