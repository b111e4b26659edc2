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
