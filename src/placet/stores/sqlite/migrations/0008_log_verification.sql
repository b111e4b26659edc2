-- The digest of the case's state after an event. Events from before this migration have none.
ALTER TABLE events ADD COLUMN state_digest TEXT;

DROP TRIGGER events_are_only_ever_blanked;

CREATE TRIGGER events_are_only_ever_blanked BEFORE UPDATE ON events
WHEN new.data IS NOT NULL OR new.salt IS NOT NULL
  OR new.case_number IS NOT old.case_number OR new.seq IS NOT old.seq OR new.type IS NOT old.type
  OR new.at IS NOT old.at OR new.actor IS NOT old.actor OR new.data_digest IS NOT old.data_digest
  OR new.previous IS NOT old.previous OR new.digest IS NOT old.digest
  OR new.state_digest IS NOT old.state_digest
BEGIN
  SELECT RAISE(ABORT, 'events are append-only');
END;

-- The chain of a tenant's audit events. Events from before this migration are not in it.
ALTER TABLE audit_events ADD COLUMN seq INTEGER;
ALTER TABLE audit_events ADD COLUMN salt TEXT;
ALTER TABLE audit_events ADD COLUMN body_digest TEXT;
ALTER TABLE audit_events ADD COLUMN outline_digest TEXT;
ALTER TABLE audit_events ADD COLUMN previous TEXT;
ALTER TABLE audit_events ADD COLUMN digest TEXT;

DROP TRIGGER audit_events_only_ever_lose_their_content;

CREATE TRIGGER audit_events_only_ever_lose_their_content BEFORE UPDATE ON audit_events
WHEN new.redacted IS NOT 1
  OR new.number IS NOT old.number OR new.id IS NOT old.id OR new.tenant IS NOT old.tenant
  OR new.at IS NOT old.at OR new.type IS NOT old.type OR new.action IS NOT old.action
  OR new.transport IS NOT old.transport OR new.source_agent IS NOT old.source_agent
  OR new.source_user IS NOT old.source_user OR new.sink_agent IS NOT old.sink_agent
  OR new.correlation_id IS NOT old.correlation_id OR new.task_id IS NOT old.task_id
  OR new.seq IS NOT old.seq OR (new.salt IS NOT NULL AND new.salt IS NOT old.salt)
  OR new.body_digest IS NOT old.body_digest OR new.outline_digest IS NOT old.outline_digest
  OR new.previous IS NOT old.previous OR new.digest IS NOT old.digest
BEGIN
  SELECT RAISE(ABORT, 'audit events are append-only');
END;

-- Where the chain of each tenant ends, and how much of its beginning retention has deleted.
CREATE TABLE audit_heads (
  tenant         TEXT    PRIMARY KEY,
  count          INTEGER NOT NULL,
  digest         TEXT    NOT NULL,
  deleted        INTEGER NOT NULL,
  deleted_digest TEXT    NOT NULL
) STRICT, WITHOUT ROWID;

-- Signed statements about the whole log.
CREATE TABLE checkpoints (
  number   INTEGER PRIMARY KEY,
  made_at  INTEGER NOT NULL,
  document BLOB    NOT NULL
) STRICT;
