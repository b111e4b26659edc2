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
