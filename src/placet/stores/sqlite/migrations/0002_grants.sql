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
