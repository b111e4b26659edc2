-- Moments are whole microseconds since 1970 in UTC, as in the other engines. Text compares by its bytes.

-- One row. A writer that adds to the log locks it first, so that numbers have no gaps and commit in their order.
CREATE TABLE log_heads (
  cases       bigint NOT NULL,
  events      bigint NOT NULL,
  grants      bigint NOT NULL,
  audit_events bigint NOT NULL,
  checkpoints bigint NOT NULL
);
INSERT INTO log_heads VALUES (0, 0, 0, 0, 0);

CREATE TABLE cases (
  number      bigint PRIMARY KEY,
  id          text COLLATE "C" NOT NULL UNIQUE,
  owner       text COLLATE "C",
  status      text NOT NULL,
  version     bigint NOT NULL,
  due_at      bigint,
  state       bytea NOT NULL,
  waits_until bigint,
  closed_at   bigint
);
-- Cases without an owner are indexed under a character that no owner contains.
CREATE INDEX cases_of_owner ON cases ((coalesce(owner, U&'\0001')), number);
CREATE INDEX cases_of_owner_by_status ON cases ((coalesce(owner, U&'\0001')), status, number);
CREATE INDEX cases_due ON cases (due_at) WHERE due_at IS NOT NULL;
CREATE INDEX cases_waiting ON cases ((coalesce(owner, U&'\0001')), waits_until, number) WHERE waits_until IS NOT NULL;
CREATE INDEX cases_closed ON cases ((coalesce(owner, U&'\0001')), closed_at, number) WHERE closed_at IS NOT NULL;

CREATE TABLE offers (
  case_number bigint PRIMARY KEY REFERENCES cases (number),
  offer       bytea NOT NULL
);

CREATE TABLE events (
  number      bigint PRIMARY KEY,
  case_number bigint NOT NULL REFERENCES cases (number),
  seq         bigint NOT NULL,
  type        text NOT NULL,
  at          bigint NOT NULL,
  actor       text NOT NULL,
  data        bytea,
  salt        text,
  data_digest text NOT NULL,
  previous    text NOT NULL,
  digest      text NOT NULL,
  state_digest text,
  UNIQUE (case_number, seq)
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  RAISE EXCEPTION '% are append-only', TG_ARGV[0];
END $$;

CREATE TRIGGER events_are_never_removed BEFORE DELETE OR TRUNCATE ON events
FOR EACH STATEMENT EXECUTE FUNCTION refuse_change('events');

CREATE TRIGGER events_are_only_ever_blanked BEFORE UPDATE ON events FOR EACH ROW
WHEN (new.data IS NOT NULL OR new.salt IS NOT NULL
  OR (new.number, new.case_number, new.seq, new.type, new.at, new.actor, new.data_digest, new.previous, new.digest,
      new.state_digest)
  IS DISTINCT FROM
     (old.number, old.case_number, old.seq, old.type, old.at, old.actor, old.data_digest, old.previous, old.digest,
      old.state_digest))
EXECUTE FUNCTION refuse_change('events');

CREATE TABLE drafts (
  case_number bigint PRIMARY KEY REFERENCES cases (number),
  entries     bytea NOT NULL,
  step        bigint NOT NULL,
  saved_at    bigint NOT NULL
);

CREATE TABLE replays (
  owner          text COLLATE "C" NOT NULL,
  key_digest     text COLLATE "C" NOT NULL,
  request_digest text NOT NULL,
  sealed_answer  bytea NOT NULL,
  expires_at     bigint NOT NULL,
  PRIMARY KEY (owner, key_digest)
);
CREATE INDEX replays_by_expiry ON replays (expires_at);

CREATE TABLE spent_evidence (
  digest text COLLATE "C" PRIMARY KEY
);

-- What no case owes, such as notifications of the relay, has no case_number.
CREATE TABLE deliveries (
  number      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id          text COLLATE "C" NOT NULL UNIQUE,
  case_number bigint REFERENCES cases (number),
  event       text NOT NULL,
  owner       text COLLATE "C" NOT NULL,
  courier     text NOT NULL,
  target      text COLLATE "C" NOT NULL,
  body        bytea NOT NULL,
  created_at  bigint NOT NULL,
  next_at     bigint,
  state       text NOT NULL,
  attempts    bigint NOT NULL,
  last_status bigint,
  last_error  text,
  settled_at  bigint
);
CREATE INDEX deliveries_of_case ON deliveries (case_number);
CREATE INDEX deliveries_of_owner ON deliveries (owner, number);
CREATE INDEX deliveries_waiting ON deliveries (next_at) WHERE state = 'waiting';
CREATE INDEX deliveries_failed ON deliveries (number) WHERE state = 'failed';

CREATE TABLE endpoints (
  owner           text COLLATE "C" NOT NULL,
  url             text COLLATE "C" NOT NULL,
  secret          text NOT NULL,
  previous_secret text,
  previous_until  bigint,
  disabled_at     bigint,
  created_at      bigint NOT NULL,
  PRIMARY KEY (owner, url)
);

CREATE TABLE api_keys (
  number     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id         text COLLATE "C" NOT NULL UNIQUE,
  name       text NOT NULL,
  digest     text COLLATE "C" NOT NULL UNIQUE,
  scopes     text NOT NULL,
  created_at bigint NOT NULL,
  expires_at bigint,
  revoked_at bigint
);

CREATE TABLE signing_keys (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  kid    text COLLATE "C" NOT NULL UNIQUE,
  key    text NOT NULL
);

CREATE TABLE secrets (
  name  text COLLATE "C" PRIMARY KEY,
  value text NOT NULL
);

CREATE TABLE inbox_sessions (
  digest     text COLLATE "C" PRIMARY KEY,
  key_digest text NOT NULL,
  ends_at    bigint NOT NULL
);
CREATE INDEX inbox_sessions_by_end ON inbox_sessions (ends_at);

CREATE TABLE grants (
  number      bigint PRIMARY KEY,
  id          text COLLATE "C" NOT NULL UNIQUE,
  case_number bigint NOT NULL REFERENCES cases (number),
  owner       text COLLATE "C" NOT NULL,
  tool        text COLLATE "C" NOT NULL,
  agent       text,
  patterns    bytea,
  uses        bigint NOT NULL,
  used        bigint NOT NULL,
  granted_at  bigint NOT NULL,
  expires_at  bigint NOT NULL,
  granted_by  text NOT NULL,
  call_id     text NOT NULL,
  revoked_at  bigint,
  revoked_by  text,
  open_until  bigint
);
CREATE INDEX grants_of_case ON grants (case_number);
CREATE INDEX grants_of_owner ON grants (owner, number);
CREATE INDEX grants_open ON grants (owner, tool, open_until) WHERE open_until IS NOT NULL;

CREATE TABLE grant_uses (
  owner       text COLLATE "C" NOT NULL,
  key         text COLLATE "C" NOT NULL,
  grant_id    text NOT NULL,
  call_digest text NOT NULL,
  used_at     bigint NOT NULL,
  expires_at  bigint NOT NULL,
  PRIMARY KEY (owner, key)
);
CREATE INDEX grant_uses_by_expiry ON grant_uses (expires_at);

CREATE TABLE relay_records (
  number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant   text COLLATE "C" NOT NULL,
  kind     text NOT NULL,
  id       text COLLATE "C" NOT NULL,
  rev      bigint NOT NULL,
  saved_at bigint NOT NULL,
  body     bytea NOT NULL,
  UNIQUE (kind, tenant, id)
);

CREATE TABLE relay_changes (
  name  text PRIMARY KEY,
  count bigint NOT NULL
);

CREATE TABLE relay_tasks (
  number   bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  tenant   text COLLATE "C" NOT NULL,
  agent    text COLLATE "C" NOT NULL,
  kind     text COLLATE "C" NOT NULL,
  id       text COLLATE "C" NOT NULL,
  saved_at bigint NOT NULL,
  body     bytea NOT NULL,
  UNIQUE (tenant, agent, kind, id)
);
CREATE INDEX relay_tasks_by_age ON relay_tasks (tenant, saved_at) WHERE kind <> 'context';

CREATE TABLE holds (
  number           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id               text COLLATE "C" NOT NULL UNIQUE,
  tenant           text COLLATE "C" NOT NULL,
  case_id          text COLLATE "C" NOT NULL UNIQUE,
  status           text NOT NULL,
  rev              bigint NOT NULL,
  detection_source text NOT NULL,
  source           text COLLATE "C" NOT NULL,
  sink             text COLLATE "C" NOT NULL,
  task_id          text COLLATE "C" NOT NULL,
  policy_name      text,
  correlation_id   text COLLATE "C" NOT NULL,
  created_at       bigint NOT NULL,
  resolved_at      bigint,
  body             bytea NOT NULL,
  envelope         bytea NOT NULL
);
CREATE INDEX holds_by_time ON holds (tenant, created_at, number);
CREATE INDEX holds_by_status ON holds (tenant, status, created_at, number);
CREATE INDEX holds_of_task ON holds (tenant, task_id, created_at);
CREATE INDEX holds_of_correlation ON holds (tenant, correlation_id, created_at);
CREATE INDEX holds_of_source ON holds (tenant, source, status, created_at);

CREATE TABLE audit_events (
  number         bigint PRIMARY KEY,
  id             text COLLATE "C" NOT NULL UNIQUE,
  tenant         text COLLATE "C" NOT NULL,
  at             bigint NOT NULL,
  type           text NOT NULL,
  action         text,
  transport      text,
  source_agent   text COLLATE "C",
  source_user    text COLLATE "C",
  sink_agent     text COLLATE "C",
  correlation_id text COLLATE "C" NOT NULL,
  task_id        text COLLATE "C",
  redacted       bigint NOT NULL DEFAULT 0,
  body           bytea NOT NULL,
  seq            bigint,
  salt           text,
  body_digest    text,
  outline_digest text,
  previous       text,
  digest         text
);
CREATE INDEX audit_events_in_order ON audit_events (tenant, number);
CREATE INDEX audit_events_by_time ON audit_events (tenant, at, number);
CREATE INDEX audit_events_of_correlation ON audit_events (tenant, correlation_id, at);
CREATE INDEX audit_events_of_task ON audit_events (tenant, task_id, at) WHERE task_id IS NOT NULL;
CREATE INDEX audit_events_from_agent ON audit_events (tenant, source_agent, at) WHERE source_agent IS NOT NULL;
CREATE INDEX audit_events_from_user ON audit_events (tenant, source_user, at) WHERE source_user IS NOT NULL;
CREATE INDEX audit_events_to_agent ON audit_events (tenant, sink_agent, at) WHERE sink_agent IS NOT NULL;
CREATE INDEX audit_events_by_type ON audit_events (tenant, type, at) WHERE type <> 'COMMUNICATION_AUDIT';
CREATE INDEX audit_events_by_action ON audit_events (tenant, action, at) WHERE action <> 'LOG';
CREATE INDEX audit_events_to_redact ON audit_events (tenant, at) WHERE redacted = 0;

CREATE TRIGGER audit_events_only_ever_lose_their_content BEFORE UPDATE ON audit_events FOR EACH ROW
WHEN (new.redacted <> 1 OR (new.salt IS NOT NULL AND new.salt IS DISTINCT FROM old.salt)
  OR (new.number, new.id, new.tenant, new.at, new.type, new.action, new.transport, new.source_agent, new.source_user,
      new.sink_agent, new.correlation_id, new.task_id, new.seq, new.body_digest, new.outline_digest, new.previous,
      new.digest)
  IS DISTINCT FROM
     (old.number, old.id, old.tenant, old.at, old.type, old.action, old.transport, old.source_agent, old.source_user,
      old.sink_agent, old.correlation_id, old.task_id, old.seq, old.body_digest, old.outline_digest, old.previous,
      old.digest))
EXECUTE FUNCTION refuse_change('audit events');

CREATE TABLE audit_heads (
  tenant         text COLLATE "C" PRIMARY KEY,
  count          bigint NOT NULL,
  digest         text NOT NULL,
  deleted        bigint NOT NULL,
  deleted_digest text NOT NULL
);

CREATE TABLE checkpoints (
  number   bigint PRIMARY KEY,
  made_at  bigint NOT NULL,
  document bytea NOT NULL
);

-- What the cases of an owner use, so that quotas need no count. Triggers add rows, which a sweep sums up: a row
-- that every write had to update would make writers wait for each other. Cases without an owner are under ''.
CREATE TABLE owner_usage (
  owner        text COLLATE "C" NOT NULL,
  open_cases   bigint NOT NULL,
  stored_bytes bigint NOT NULL
);
CREATE INDEX owner_usage_of_owner ON owner_usage (owner);

CREATE FUNCTION count_new_offers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO owner_usage
  SELECT coalesce(owner, ''), count(waits_until), sum(length(offer))
  FROM new_rows JOIN cases ON number = case_number GROUP BY owner;
  RETURN NULL;
END $$;
CREATE TRIGGER usage_grows_with_a_case AFTER INSERT ON offers
REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_new_offers();

CREATE FUNCTION count_closed_cases() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO owner_usage
  SELECT coalesce(new_rows.owner, ''), -count(*), 0
  FROM new_rows JOIN old_rows USING (number)
  WHERE old_rows.waits_until IS NOT NULL AND new_rows.waits_until IS NULL GROUP BY new_rows.owner;
  RETURN NULL;
END $$;
CREATE TRIGGER usage_shrinks_when_a_case_closes AFTER UPDATE ON cases
REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION count_closed_cases();

CREATE FUNCTION count_erased_offers() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO owner_usage
  SELECT coalesce(owner, ''), 0, -sum(length(offer))
  FROM old_rows JOIN cases ON number = case_number GROUP BY owner;
  RETURN NULL;
END $$;
CREATE TRIGGER usage_shrinks_when_an_offer_is_erased AFTER DELETE ON offers
REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION count_erased_offers();

CREATE FUNCTION count_drafts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO owner_usage
  SELECT coalesce(owner, ''), 0,
    CASE TG_OP WHEN 'DELETE' THEN -length(old.entries) WHEN 'INSERT' THEN length(new.entries)
    ELSE length(new.entries) - length(old.entries) END
  FROM cases WHERE number = CASE TG_OP WHEN 'DELETE' THEN old.case_number ELSE new.case_number END;
  RETURN NULL;
END $$;
CREATE TRIGGER usage_changes_with_a_draft AFTER INSERT OR UPDATE OR DELETE ON drafts
FOR EACH ROW EXECUTE FUNCTION count_drafts();

-- An event is long if its data has more than 4 KiB.
CREATE FUNCTION count_long_events() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  INSERT INTO owner_usage
  SELECT coalesce(owner, ''), 0, CASE TG_OP WHEN 'INSERT' THEN length(new.data) ELSE -length(old.data) END
  FROM cases WHERE number = new.case_number;
  RETURN NULL;
END $$;
CREATE TRIGGER usage_grows_with_a_long_event AFTER INSERT ON events FOR EACH ROW
WHEN (length(new.data) > 4096) EXECUTE FUNCTION count_long_events();
CREATE TRIGGER usage_shrinks_when_a_long_event_is_erased AFTER UPDATE ON events FOR EACH ROW
WHEN (length(old.data) > 4096 AND new.data IS NULL) EXECUTE FUNCTION count_long_events();
