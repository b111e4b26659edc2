-- The browsers in which people have turned on notifications.
CREATE TABLE push_subscriptions (
  number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  endpoint   text COLLATE "C" NOT NULL UNIQUE,
  owner      text COLLATE "C" NOT NULL,
  p256dh     text NOT NULL,
  auth       text NOT NULL,
  created_at bigint NOT NULL
);
CREATE INDEX push_subscriptions_of_owner ON push_subscriptions (owner, created_at);
