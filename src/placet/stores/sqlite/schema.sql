-- Moments are whole microseconds since 1970 in UTC. Rows refer to a case by its number and not by its id:
-- ids are random, and a B-tree that is filled at random places grows slower with every case.

CREATE TABLE cases (
  number   INTEGER PRIMARY KEY,
  id       TEXT    NOT NULL UNIQUE,
  owner    TEXT,
  status   TEXT    NOT NULL,
  version  INTEGER NOT NULL,
  due_at   INTEGER,
  state    BLOB    NOT NULL
, waits_until INTEGER, closed_at INTEGER) STRICT;

CREATE INDEX cases_of_owner ON cases (owner, status);
CREATE INDEX cases_due ON cases (due_at) WHERE due_at IS NOT NULL;
-- A case is in the first while it waits, in the second once it is closed, in neither after its content is erased.
CREATE INDEX cases_waiting ON cases (owner, waits_until) WHERE waits_until IS NOT NULL;
CREATE INDEX cases_closed ON cases (owner, closed_at) WHERE closed_at IS NOT NULL;

-- Apart from its case, because it never changes while the case does; the row goes when content is erased.
CREATE TABLE offers (
  case_number INTEGER PRIMARY KEY REFERENCES cases (number),
  offer       BLOB    NOT NULL
) STRICT;

CREATE TABLE events (
  case_number INTEGER NOT NULL REFERENCES cases (number),
  seq         INTEGER NOT NULL,
  type        TEXT    NOT NULL,
  at          INTEGER NOT NULL,
  actor       TEXT    NOT NULL,
  data        BLOB,
  salt        TEXT,
  data_digest TEXT    NOT NULL,
  previous    TEXT    NOT NULL,
  digest      TEXT    NOT NULL, state_digest TEXT,
  UNIQUE (case_number, seq)
) STRICT;

CREATE TRIGGER events_are_never_removed BEFORE DELETE ON events
BEGIN
  SELECT RAISE(ABORT, 'events are append-only');
END;

CREATE TRIGGER events_are_only_ever_blanked BEFORE UPDATE ON events
WHEN new.data IS NOT NULL OR new.salt IS NOT NULL
  OR new.case_number IS NOT old.case_number OR new.seq IS NOT old.seq OR new.type IS NOT old.type
  OR new.at IS NOT old.at OR new.actor IS NOT old.actor OR new.data_digest IS NOT old.data_digest
  OR new.previous IS NOT old.previous OR new.digest IS NOT old.digest
  OR new.state_digest IS NOT old.state_digest
BEGIN
  SELECT RAISE(ABORT, 'events are append-only');
END;

CREATE TABLE drafts (
  case_number INTEGER PRIMARY KEY REFERENCES cases (number),
  entries     BLOB    NOT NULL,
  step        INTEGER NOT NULL,
  saved_at    INTEGER NOT NULL
) STRICT;

CREATE TABLE replays (
  number         INTEGER PRIMARY KEY,
  owner          TEXT    NOT NULL,
  key_digest     TEXT    NOT NULL,
  request_digest TEXT    NOT NULL,
  sealed_answer  BLOB    NOT NULL,
  expires_at     INTEGER NOT NULL,
  UNIQUE (owner, key_digest)
) STRICT;

CREATE INDEX replays_by_expiry ON replays (expires_at);

CREATE TABLE spent_evidence (
  digest TEXT PRIMARY KEY
) STRICT, WITHOUT ROWID;

-- What no case owes, such as notifications of the relay, has no case_number.
CREATE TABLE deliveries (
  number      INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  case_number INTEGER REFERENCES cases (number),
  event       TEXT    NOT NULL,
  owner       TEXT    NOT NULL,
  courier     TEXT    NOT NULL,
  target      TEXT    NOT NULL,
  body        BLOB    NOT NULL,
  created_at  INTEGER NOT NULL,
  next_at     INTEGER,
  state       TEXT    NOT NULL,
  attempts    INTEGER NOT NULL,
  last_status INTEGER,
  last_error  TEXT,
  settled_at  INTEGER
) STRICT;

CREATE INDEX deliveries_of_case ON deliveries (case_number);
CREATE INDEX deliveries_of_owner ON deliveries (owner);
CREATE INDEX deliveries_waiting ON deliveries (next_at) WHERE state = 'waiting';
CREATE INDEX deliveries_failed ON deliveries (state) WHERE state = 'failed';

CREATE TABLE endpoints (
  owner           TEXT    NOT NULL,
  url             TEXT    NOT NULL,
  secret          TEXT    NOT NULL,
  previous_secret TEXT,
  previous_until  INTEGER,
  disabled_at     INTEGER,
  created_at      INTEGER NOT NULL,
  PRIMARY KEY (owner, url)
) STRICT, WITHOUT ROWID;

CREATE TABLE api_keys (
  number     INTEGER PRIMARY KEY,
  id         TEXT    NOT NULL UNIQUE,
  name       TEXT    NOT NULL,
  digest     TEXT    NOT NULL UNIQUE,
  scopes     TEXT    NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER,
  revoked_at INTEGER
) STRICT;

CREATE TABLE signing_keys (
  number INTEGER PRIMARY KEY,
  kid    TEXT NOT NULL UNIQUE,
  key    TEXT NOT NULL
) STRICT;

CREATE TABLE secrets (
  name  TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Who is signed in to the inbox. Signing out deletes the row; the cookie's token is stored as a digest.
CREATE TABLE inbox_sessions (
  digest     TEXT    PRIMARY KEY,
  key_digest TEXT    NOT NULL,
  ends_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_sessions_by_end ON inbox_sessions (ends_at);

-- The browsers in which people have turned on notifications.
CREATE TABLE push_subscriptions (
  number     INTEGER PRIMARY KEY,
  endpoint   TEXT    NOT NULL UNIQUE,
  owner      TEXT    NOT NULL,
  p256dh     TEXT    NOT NULL,
  auth       TEXT    NOT NULL,
  created_at INTEGER NOT NULL
) STRICT;
CREATE INDEX push_subscriptions_of_owner ON push_subscriptions (owner, created_at);

-- Passkeys of people, the invitations to register them, and answers that wait for a proof of the person.
CREATE TABLE passkeys (
  number  INTEGER PRIMARY KEY,
  id      TEXT    NOT NULL UNIQUE,
  counter INTEGER NOT NULL,
  used_at INTEGER,
  passkey BLOB    NOT NULL
) STRICT;

CREATE TABLE passkey_invitations (
  digest     TEXT    PRIMARY KEY,
  expires_at INTEGER NOT NULL,
  invitation BLOB    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX passkey_invitations_by_expiry ON passkey_invitations (expires_at);

CREATE TABLE verification_attempts (
  id          TEXT    PRIMARY KEY,
  case_number INTEGER NOT NULL REFERENCES cases (number),
  version     INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  attempt     BLOB    NOT NULL
) STRICT;
CREATE INDEX verification_attempts_of_case ON verification_attempts (case_number);
CREATE INDEX verification_attempts_by_expiry ON verification_attempts (expires_at);

-- A grant moves with its case, whose version guards it. `open_until` is empty once the grant covers nothing,
-- whatever the clock says; `patterns` once the content of its case was erased.
CREATE TABLE grants (
  number      INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  case_number INTEGER NOT NULL REFERENCES cases (number),
  owner       TEXT    NOT NULL,
  tool        TEXT    NOT NULL,
  agent       TEXT,
  patterns    BLOB,
  uses        INTEGER NOT NULL,
  used        INTEGER NOT NULL,
  granted_at  INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  granted_by  TEXT    NOT NULL,
  call_id     TEXT    NOT NULL,
  revoked_at  INTEGER,
  revoked_by  TEXT,
  open_until  INTEGER
) STRICT;

CREATE INDEX grants_of_case ON grants (case_number);
CREATE INDEX grants_of_owner ON grants (owner);
CREATE INDEX grants_open ON grants (owner, tool, open_until) WHERE open_until IS NOT NULL;

CREATE TABLE grant_uses (
  owner       TEXT    NOT NULL,
  key         TEXT    NOT NULL,
  grant_id    TEXT    NOT NULL,
  call_digest TEXT    NOT NULL,
  used_at     INTEGER NOT NULL,
  expires_at  INTEGER NOT NULL,
  PRIMARY KEY (owner, key)
) STRICT, WITHOUT ROWID;

CREATE INDEX grant_uses_by_expiry ON grant_uses (expires_at);

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
CREATE INDEX holds_of_source ON holds (tenant, source, status, created_at);

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
, seq INTEGER, salt TEXT, body_digest TEXT, outline_digest TEXT, previous TEXT, digest TEXT) STRICT;

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

-- What the cases of an owner use, so that quotas need no count. Triggers keep it right, whatever writes a case;
-- cases without an owner are under the empty name.
CREATE TABLE owner_usage (
  owner        TEXT    PRIMARY KEY,
  open_cases   INTEGER NOT NULL,
  stored_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TRIGGER usage_grows_with_a_case AFTER INSERT ON offers
BEGIN
  INSERT INTO owner_usage (owner, open_cases, stored_bytes)
  SELECT coalesce(owner, ''), waits_until IS NOT NULL, length(new.offer) FROM cases WHERE number = new.case_number
  ON CONFLICT (owner) DO UPDATE SET
    open_cases = open_cases + excluded.open_cases, stored_bytes = stored_bytes + excluded.stored_bytes;
END;

CREATE TRIGGER usage_shrinks_when_a_case_closes AFTER UPDATE OF waits_until ON cases
WHEN old.waits_until IS NOT NULL AND new.waits_until IS NULL
BEGIN
  UPDATE owner_usage SET open_cases = open_cases - 1 WHERE owner = coalesce(new.owner, '');
END;

CREATE TRIGGER usage_shrinks_when_an_offer_is_erased AFTER DELETE ON offers
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes - length(old.offer)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = old.case_number);
END;

-- Drafts and long answers count too. An event is long if its data has more than 4 KiB.
CREATE TRIGGER usage_grows_with_a_draft AFTER INSERT ON drafts
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes + length(new.entries)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = new.case_number);
END;

CREATE TRIGGER usage_changes_with_a_draft AFTER UPDATE OF entries ON drafts
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes + length(new.entries) - length(old.entries)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = new.case_number);
END;

CREATE TRIGGER usage_shrinks_when_a_draft_is_deleted AFTER DELETE ON drafts
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes - length(old.entries)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = old.case_number);
END;

CREATE TRIGGER usage_grows_with_a_long_event AFTER INSERT ON events WHEN length(new.data) > 4096
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes + length(new.data)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = new.case_number);
END;

CREATE TRIGGER usage_shrinks_when_a_long_event_is_erased AFTER UPDATE OF data ON events
WHEN length(old.data) > 4096 AND new.data IS NULL
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes - length(old.data)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = old.case_number);
END;
