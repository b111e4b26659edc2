CREATE TABLE threads (
  number INTEGER PRIMARY KEY,
  thread_id BLOB NOT NULL UNIQUE,
  rev INTEGER NOT NULL,
  stage TEXT NOT NULL,
  is_open INTEGER NOT NULL, -- whether it waits or runs; beside the stage, which changes more often
  saved_at INTEGER NOT NULL,
  leased_until INTEGER
) STRICT;
CREATE INDEX open_threads ON threads (is_open) WHERE is_open = 1;
CREATE TABLE checkpoints (
  place INTEGER PRIMARY KEY, -- the thread's number, then 32 bits of rev: no second tree, and neighbours
  rev INTEGER NOT NULL,
  stage TEXT NOT NULL,
  saved_at INTEGER NOT NULL,
  text TEXT NOT NULL
) STRICT;

-- A step of a thread is one statement, and so one transaction: a row that is put into this view. `free_at`
-- is when a lease must be over, `oldest` the last checkpoint that is too old by number, `since` by age.
CREATE VIEW steps AS
SELECT
  thread_id, c.rev, c.stage, is_open, c.saved_at, leased_until, text,
  0 AS free_at, 0 AS oldest, 0 AS since
FROM threads JOIN checkpoints AS c ON place = (number << 32) + threads.rev;

CREATE TRIGGER beginning INSTEAD OF INSERT ON steps WHEN new.rev = 1 BEGIN
  SELECT RAISE(ABORT, 'busy') FROM threads WHERE thread_id = new.thread_id AND leased_until > new.free_at;
  INSERT INTO threads (thread_id, rev, stage, is_open, saved_at, leased_until)
  VALUES (new.thread_id, 1, new.stage, new.is_open, new.saved_at, new.leased_until);
  INSERT INTO checkpoints VALUES
    ((last_insert_rowid() << 32) + 1, 1, new.stage, new.saved_at, new.text);
END;

CREATE TRIGGER step INSTEAD OF INSERT ON steps WHEN new.rev <> 1 BEGIN
  SELECT RAISE(ABORT, 'busy') FROM threads WHERE thread_id = new.thread_id AND leased_until > new.free_at;
  SELECT RAISE(ABORT, 'conflict')
  WHERE NOT EXISTS (SELECT 1 FROM threads WHERE thread_id = new.thread_id AND rev = new.rev - 1);
  INSERT INTO checkpoints
  SELECT (number << 32) + new.rev, new.rev, new.stage, new.saved_at, new.text
  FROM threads WHERE thread_id = new.thread_id;
  UPDATE threads
  SET rev = new.rev, stage = new.stage, saved_at = new.saved_at, leased_until = new.leased_until
  WHERE thread_id = new.thread_id;
  UPDATE threads SET is_open = new.is_open WHERE thread_id = new.thread_id AND is_open <> new.is_open;
END;

CREATE TRIGGER retention INSTEAD OF INSERT ON steps WHEN new.oldest > 0 OR new.since IS NOT NULL BEGIN
  DELETE FROM checkpoints WHERE place IN (
    SELECT c.place FROM threads AS t
    JOIN checkpoints AS c ON c.place >= t.number << 32 AND c.place < (t.number << 32) + new.rev
    WHERE t.thread_id = new.thread_id AND (c.rev <= new.oldest OR c.saved_at < new.since)
  );
END;

CREATE TRIGGER release AFTER DELETE ON threads BEGIN
  DELETE FROM checkpoints WHERE place BETWEEN old.number << 32 AND (old.number << 32) + old.rev;
END;

PRAGMA application_id = 0x506C6368;
PRAGMA user_version = 2;
PRAGMA journal_mode = WAL;
