-- What no case owes, such as notifications of the relay, has no case_number.
ALTER TABLE deliveries RENAME TO deliveries_of_cases;

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

INSERT INTO deliveries SELECT * FROM deliveries_of_cases ORDER BY number;

DROP TABLE deliveries_of_cases;

CREATE INDEX deliveries_of_case ON deliveries (case_number);
CREATE INDEX deliveries_of_owner ON deliveries (owner);
CREATE INDEX deliveries_waiting ON deliveries (next_at) WHERE state = 'waiting';
CREATE INDEX deliveries_failed ON deliveries (state) WHERE state = 'failed';
