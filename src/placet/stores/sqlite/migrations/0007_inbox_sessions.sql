-- Who is signed in to the inbox. Signing out deletes the row; the cookie's token is stored as a digest.
CREATE TABLE inbox_sessions (
  digest     TEXT    PRIMARY KEY,
  key_digest TEXT    NOT NULL,
  ends_at    INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX inbox_sessions_by_end ON inbox_sessions (ends_at);
