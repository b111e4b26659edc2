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
) STRICT;

CREATE INDEX cases_of_owner ON cases (owner, status);
CREATE INDEX cases_due ON cases (due_at) WHERE due_at IS NOT NULL;

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
  digest      TEXT    NOT NULL,
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

CREATE TABLE deliveries (
  number      INTEGER PRIMARY KEY,
  id          TEXT    NOT NULL UNIQUE,
  case_number INTEGER NOT NULL REFERENCES cases (number),
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
