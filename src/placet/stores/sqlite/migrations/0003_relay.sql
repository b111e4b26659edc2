-- What operators set up for the relay; `rev` guards each record.
CREATE TABLE relay_records (
  number   INTEGER PRIMARY KEY,
  tenant   TEXT    NOT NULL,
  kind     TEXT    NOT NULL,
  id       TEXT    NOT NULL,
  rev      INTEGER NOT NULL,
  saved_at INTEGER NOT NULL,
  body     BLOB    NOT NULL,
  UNIQUE (kind, tenant, id)
) STRICT;

-- One row that counts every change of a record, so that other processes need not read all of them to notice.
CREATE TABLE relay_changes (
  name  TEXT    PRIMARY KEY,
  count INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Tasks and conversations as their callers name them.
CREATE TABLE relay_tasks (
  number   INTEGER PRIMARY KEY,
  tenant   TEXT    NOT NULL,
  agent    TEXT    NOT NULL,
  kind     TEXT    NOT NULL,
  id       TEXT    NOT NULL,
  saved_at INTEGER NOT NULL,
  body     BLOB    NOT NULL,
  UNIQUE (tenant, agent, kind, id)
) STRICT;

CREATE INDEX relay_tasks_by_age ON relay_tasks (tenant, saved_at) WHERE kind <> 'context';

CREATE TABLE holds (
  number           INTEGER PRIMARY KEY,
  id               TEXT    NOT NULL UNIQUE,
  tenant           TEXT    NOT NULL,
  case_id          TEXT    NOT NULL UNIQUE,
  status           TEXT    NOT NULL,
  rev              INTEGER NOT NULL,
  detection_source TEXT    NOT NULL,
  source           TEXT    NOT NULL,
  sink             TEXT    NOT NULL,
  task_id          TEXT    NOT NULL,
  policy_name      TEXT,
  correlation_id   TEXT    NOT NULL,
  created_at       INTEGER NOT NULL,
  resolved_at      INTEGER,
  body             BLOB    NOT NULL,
  envelope         BLOB    NOT NULL
) STRICT;

CREATE INDEX holds_by_time ON holds (tenant, created_at);
CREATE INDEX holds_by_status ON holds (tenant, status, created_at);
CREATE INDEX holds_of_task ON holds (tenant, task_id, created_at);
CREATE INDEX holds_of_correlation ON holds (tenant, correlation_id, created_at);

CREATE TABLE audit_events (
  number         INTEGER PRIMARY KEY,
  id             TEXT    NOT NULL UNIQUE,
  tenant         TEXT    NOT NULL,
  at             INTEGER NOT NULL,
  type           TEXT    NOT NULL,
  action         TEXT,
  transport      TEXT,
  source_agent   TEXT,
  source_user    TEXT,
  sink_agent     TEXT,
  correlation_id TEXT    NOT NULL,
  task_id        TEXT,
  redacted       INTEGER NOT NULL DEFAULT 0,
  body           BLOB    NOT NULL
) STRICT;

CREATE INDEX audit_events_in_order ON audit_events (tenant);
CREATE INDEX audit_events_by_time ON audit_events (tenant, at);
CREATE INDEX audit_events_of_correlation ON audit_events (tenant, correlation_id, at);
CREATE INDEX audit_events_of_task ON audit_events (tenant, task_id, at) WHERE task_id IS NOT NULL;
-- What asks for these is told from the bulk of all messages, which has no place in the last two.
CREATE INDEX audit_events_from_agent ON audit_events (tenant, source_agent, at) WHERE source_agent IS NOT NULL;
CREATE INDEX audit_events_from_user ON audit_events (tenant, source_user, at) WHERE source_user IS NOT NULL;
CREATE INDEX audit_events_to_agent ON audit_events (tenant, sink_agent, at) WHERE sink_agent IS NOT NULL;
CREATE INDEX audit_events_by_type ON audit_events (tenant, type, at) WHERE type <> 'COMMUNICATION_AUDIT';
CREATE INDEX audit_events_by_action ON audit_events (tenant, action, at) WHERE action <> 'LOG';
CREATE INDEX audit_events_to_redact ON audit_events (tenant, at) WHERE redacted = 0;

CREATE TRIGGER audit_events_only_ever_lose_their_content BEFORE UPDATE ON audit_events
WHEN new.redacted IS NOT 1
  OR new.number IS NOT old.number OR new.id IS NOT old.id OR new.tenant IS NOT old.tenant
  OR new.at IS NOT old.at OR new.type IS NOT old.type OR new.action IS NOT old.action
  OR new.transport IS NOT old.transport OR new.source_agent IS NOT old.source_agent
  OR new.source_user IS NOT old.source_user OR new.sink_agent IS NOT old.sink_agent
  OR new.correlation_id IS NOT old.correlation_id OR new.task_id IS NOT old.task_id
BEGIN
  SELECT RAISE(ABORT, 'audit events are append-only');
END;
