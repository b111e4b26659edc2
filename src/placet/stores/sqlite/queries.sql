-- name: begin
BEGIN IMMEDIATE

-- name: commit
COMMIT

-- name: rollback
ROLLBACK

-- name: savepoint
SAVEPOINT operation

-- name: release
RELEASE operation

-- name: undo
ROLLBACK TO operation

-- name: select_state
-- One statement, one moment: another process may be creating the schema right now.
SELECT user_version, application_id, (SELECT count(*) FROM sqlite_schema)
FROM pragma_user_version, pragma_application_id

-- name: insert_probe
INSERT INTO replays (owner, key_digest, request_digest, sealed_answer, expires_at)
VALUES ('', 'probe', '', zeroblob(32768), 0)

-- name: delete_probe
DELETE FROM replays WHERE owner = '' AND key_digest = 'probe'

-- name: data_version
PRAGMA data_version


-- name: insert_case
INSERT INTO cases (id, owner, status, version, due_at, state, waits_until, closed_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
ON CONFLICT (id) DO NOTHING

-- name: insert_offer
INSERT INTO offers (case_number, offer) SELECT number, ?2 FROM cases WHERE id = ?1

-- name: insert_event
INSERT INTO events (case_number, seq, type, at, actor, data, salt, data_digest, previous, digest, state_digest)
SELECT number, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM cases WHERE id = ?1

-- name: update_case
UPDATE cases SET status = ?3, version = ?4, due_at = ?5, state = ?6, waits_until = ?7, closed_at = ?8
WHERE id = ?1 AND version = ?2

-- name: link_case
UPDATE cases SET status = ?3, version = ?4, state = ?5 WHERE id = ?1 AND version = ?2

-- name: blank_events
UPDATE events SET data = NULL, salt = NULL
WHERE case_number = (SELECT number FROM cases WHERE id = ?1) AND seq <= ?2 AND data IS NOT NULL

-- name: delete_offer
DELETE FROM offers WHERE case_number = (SELECT number FROM cases WHERE id = ?1)

-- name: delete_draft
DELETE FROM drafts WHERE case_number = (SELECT number FROM cases WHERE id = ?1)

-- name: blank_deliveries
UPDATE deliveries SET target = '', body = x''
WHERE case_number = (SELECT number FROM cases WHERE id = ?1) AND state <> 'waiting'

-- name: select_case
SELECT state FROM cases WHERE id = ?1

-- name: select_case_and_offer
SELECT state, offer FROM cases LEFT JOIN offers ON case_number = number WHERE id = ?1

-- name: select_events
SELECT id, seq, type, at, actor, data, salt, data_digest, previous, digest, state_digest
FROM cases JOIN events ON case_number = number WHERE id = ?1 AND seq > ?2 ORDER BY seq

-- name: select_cases_of_owner_by_status
SELECT state FROM cases WHERE owner IS ?1 AND status = ?2 AND number < ?3 ORDER BY number DESC LIMIT ?4

-- name: select_cases_of_owner
-- Each arm walks the index backwards and the arms are merged as they go, so that a page costs the same
-- however many cases the owner has.
WITH newest (number) AS (
  SELECT number FROM cases WHERE owner IS ?1 AND status = 'pending' AND number < ?2
  UNION ALL SELECT number FROM cases WHERE owner IS ?1 AND status = 'opened' AND number < ?2
  UNION ALL SELECT number FROM cases WHERE owner IS ?1 AND status = 'in_progress' AND number < ?2
  UNION ALL SELECT number FROM cases WHERE owner IS ?1 AND status = 'completed' AND number < ?2
  UNION ALL SELECT number FROM cases WHERE owner IS ?1 AND status = 'expired' AND number < ?2
  UNION ALL SELECT number FROM cases WHERE owner IS ?1 AND status = 'cancelled' AND number < ?2
  ORDER BY number DESC LIMIT ?3
)
SELECT state FROM newest JOIN cases USING (number) ORDER BY number DESC

-- name: select_case_number
SELECT number FROM cases WHERE id = ?1

-- name: select_anonymous_case
SELECT number FROM cases WHERE owner IS NULL LIMIT 1

-- name: select_next_owner
SELECT min(owner) FROM cases WHERE owner > ?1

-- name: select_waiting
SELECT waits_until, number FROM cases
WHERE owner IS ?1 AND waits_until >= ?2 AND (waits_until, number) > (?2, ?3)
ORDER BY waits_until, number LIMIT ?4

-- name: select_closed
SELECT closed_at, number FROM cases
WHERE owner IS ?1 AND closed_at <= ?2 AND (closed_at, number) < (?2, ?3)
ORDER BY closed_at DESC, number DESC LIMIT ?4

-- name: select_numbered_case_and_offer
SELECT state, offer FROM cases LEFT JOIN offers ON case_number = number WHERE number = ?1

-- name: select_due
SELECT state FROM cases WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at LIMIT ?2

-- name: select_usage
SELECT open_cases, stored_bytes FROM owner_usage WHERE owner = ?1

-- name: select_next_due_at
SELECT min(due_at) FROM cases WHERE due_at IS NOT NULL


-- name: insert_replay
-- A key whose first answer has run out is free again.
INSERT INTO replays (owner, key_digest, request_digest, sealed_answer, expires_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (owner, key_digest) DO UPDATE SET
  request_digest = excluded.request_digest, sealed_answer = excluded.sealed_answer, expires_at = excluded.expires_at
WHERE expires_at <= ?6

-- name: select_replay
SELECT request_digest, sealed_answer, expires_at FROM replays WHERE owner = ?1 AND key_digest = ?2

-- name: delete_replays
DELETE FROM replays WHERE expires_at <= ?1 RETURNING 1

-- name: insert_spent_evidence
INSERT INTO spent_evidence (digest) VALUES (?1) ON CONFLICT (digest) DO NOTHING

-- name: select_spent_evidence
SELECT 1 FROM spent_evidence WHERE digest = ?1

-- name: upsert_draft
INSERT INTO drafts (case_number, entries, step, saved_at)
SELECT number, ?2, ?3, ?4 FROM cases WHERE id = ?1 AND status IN ('pending', 'opened', 'in_progress')
ON CONFLICT (case_number) DO UPDATE SET
  entries = excluded.entries, step = excluded.step, saved_at = excluded.saved_at

-- name: select_draft
SELECT entries, step, saved_at FROM cases JOIN drafts ON case_number = number WHERE id = ?1


-- name: insert_delivery
INSERT INTO deliveries (
  id, case_number, event, owner, courier, target, body, created_at, next_at, state, attempts, last_status,
  last_error, settled_at
) SELECT ?1, number, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14 FROM cases WHERE id = ?2

-- name: insert_notice
INSERT INTO deliveries (
  id, event, owner, courier, target, body, created_at, next_at, state, attempts, last_status, last_error, settled_at
) VALUES (?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)

-- name: delete_notices
DELETE FROM deliveries WHERE case_number IS NULL AND settled_at <= ?1

-- name: lease_deliveries
UPDATE deliveries SET next_at = ?2 WHERE number IN (
  SELECT number FROM deliveries
  WHERE state = 'waiting' AND next_at <= ?1 AND target NOT IN (SELECT value FROM json_each(?4))
  ORDER BY next_at LIMIT ?3
) RETURNING
  id, coalesce((SELECT id FROM cases WHERE number = case_number), ''), event, owner, courier, target, body,
  created_at, next_at, state, attempts, last_status, last_error, settled_at

-- name: settle_delivery
UPDATE deliveries SET next_at = ?2, state = ?3, attempts = ?4, last_status = ?5, last_error = ?6, settled_at = ?7
WHERE id = ?1 AND state <> 'delivered'

-- name: requeue_delivery
UPDATE deliveries SET state = 'waiting', attempts = 0, next_at = ?2, settled_at = NULL
WHERE id = ?1 AND body <> x''
RETURNING
  id, coalesce((SELECT id FROM cases WHERE number = case_number), ''), event, owner, courier, target, body,
  created_at, next_at, state, attempts, last_status, last_error, settled_at

-- name: make_releases_due
UPDATE deliveries SET next_at = ?1
WHERE state = 'waiting' AND next_at > ?2 AND courier = 'relay'
  AND EXISTS (SELECT 1 FROM holds WHERE holds.id = substr(target, 7) AND tenant = ?3 AND sink = ?4)
RETURNING id

-- name: blank_delivery_of_erased_case
UPDATE deliveries SET target = '', body = x''
WHERE id = ?1 AND state <> 'waiting'
  AND NOT EXISTS (SELECT 1 FROM offers WHERE offers.case_number = deliveries.case_number)

-- name: select_deliveries
SELECT
  deliveries.id, coalesce(cases.id, ''), event, deliveries.owner, courier, target, body, created_at, next_at,
  deliveries.state, attempts, last_status, last_error, settled_at
FROM deliveries LEFT JOIN cases ON cases.number = case_number

-- name: select_next_delivery_at
SELECT min(next_at) FROM deliveries WHERE state = 'waiting'

-- name: insert_endpoint
INSERT INTO endpoints (owner, url, secret, previous_secret, previous_until, disabled_at, created_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT (owner, url) DO NOTHING

-- name: update_endpoint
UPDATE endpoints SET secret = ?3, previous_secret = ?4, previous_until = ?5, disabled_at = ?6
WHERE owner = ?1 AND url = ?2 AND secret = ?7 AND disabled_at IS ?8

-- name: disable_endpoint
UPDATE endpoints SET disabled_at = ?3 WHERE owner = ?1 AND url = ?2 AND disabled_at IS NULL

-- name: select_endpoint
SELECT owner, url, secret, previous_secret, previous_until, disabled_at, created_at
FROM endpoints WHERE owner = ?1 AND url = ?2

-- name: select_endpoints
SELECT owner, url, secret, previous_secret, previous_until, disabled_at, created_at
FROM endpoints WHERE owner = ?1 ORDER BY created_at, url


-- name: upsert_api_key
INSERT INTO api_keys (id, name, digest, scopes, created_at, expires_at, revoked_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (id) DO UPDATE SET
  name = excluded.name, digest = excluded.digest, scopes = excluded.scopes, expires_at = excluded.expires_at,
  revoked_at = excluded.revoked_at

-- name: select_api_key
SELECT id, name, digest, scopes, created_at, expires_at, revoked_at FROM api_keys WHERE digest = ?1

-- name: select_api_keys
SELECT id, name, digest, scopes, created_at, expires_at, revoked_at FROM api_keys ORDER BY created_at, number

-- name: upsert_signing_key
INSERT INTO signing_keys (kid, key) VALUES (?1, ?2) ON CONFLICT (kid) DO UPDATE SET key = excluded.key

-- name: select_signing_keys
SELECT key FROM signing_keys ORDER BY number

-- name: insert_secret
INSERT INTO secrets (name, value) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING

-- name: select_secret
SELECT value FROM secrets WHERE name = ?1

-- name: insert_inbox_session
INSERT INTO inbox_sessions (digest, key_digest, ends_at) VALUES (?1, ?2, ?3)

-- name: select_inbox_session
SELECT digest, key_digest, ends_at FROM inbox_sessions WHERE digest = ?1

-- name: delete_inbox_session
DELETE FROM inbox_sessions WHERE digest = ?1

-- name: delete_ended_inbox_sessions
DELETE FROM inbox_sessions WHERE ends_at <= ?1

-- name: upsert_push_subscription
INSERT INTO push_subscriptions (endpoint, owner, p256dh, auth, created_at) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (endpoint) DO UPDATE SET owner = ?2, p256dh = ?3, auth = ?4, created_at = ?5

-- name: select_push_subscriptions
SELECT endpoint, owner, p256dh, auth, created_at FROM push_subscriptions WHERE owner = ?1 ORDER BY created_at, number

-- name: delete_push_subscription
DELETE FROM push_subscriptions WHERE endpoint = ?1

-- name: delete_old_push_subscriptions
DELETE FROM push_subscriptions WHERE number IN (
  SELECT number FROM push_subscriptions WHERE owner = ?1 ORDER BY created_at DESC, number DESC LIMIT -1 OFFSET ?2
)

-- name: insert_grant
INSERT INTO grants (
  id, case_number, owner, tool, agent, patterns, uses, used, granted_at, expires_at, granted_by, call_id,
  revoked_at, revoked_by, open_until
) SELECT ?1, number, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15 FROM cases WHERE id = ?2
ON CONFLICT (id) DO UPDATE SET
  used = excluded.used, revoked_at = excluded.revoked_at, revoked_by = excluded.revoked_by,
  open_until = excluded.open_until

-- name: select_grants
SELECT
  grants.id, cases.id, grants.owner, tool, agent, patterns, uses, used, granted_at, expires_at, granted_by, call_id,
  revoked_at, revoked_by
FROM grants JOIN cases ON cases.number = case_number

-- name: select_grant_number
SELECT number FROM grants WHERE id = ?1

-- name: blank_grants
UPDATE grants SET patterns = NULL, granted_by = '', open_until = NULL
WHERE case_number = (SELECT number FROM cases WHERE id = ?1)

-- name: insert_grant_use
INSERT INTO grant_uses (owner, key, grant_id, call_digest, used_at, expires_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (owner, key) DO NOTHING

-- name: select_grant_use
SELECT grant_id, call_digest, used_at, expires_at FROM grant_uses WHERE owner = ?1 AND key = ?2

-- name: delete_grant_uses
DELETE FROM grant_uses WHERE expires_at <= ?1

-- name: select_nothing
SELECT number FROM cases WHERE number = 0


-- name: insert_record
INSERT INTO relay_records (tenant, kind, id, rev, saved_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (kind, tenant, id) DO NOTHING

-- name: update_record
UPDATE relay_records SET rev = ?4, saved_at = ?5, body = ?6
WHERE tenant = ?1 AND kind = ?2 AND id = ?3 AND rev = ?4 - 1

-- name: delete_record
DELETE FROM relay_records WHERE tenant = ?1 AND kind = ?2 AND id = ?3 AND rev = ?4

-- name: count_record_change
INSERT INTO relay_changes (name, count) VALUES ('records', 1) ON CONFLICT (name) DO UPDATE SET count = count + 1

-- name: select_record_changes
SELECT count FROM relay_changes WHERE name = 'records'

-- name: select_record
SELECT tenant, kind, id, rev, saved_at, body FROM relay_records WHERE tenant = ?1 AND kind = ?2 AND id = ?3

-- name: select_records
SELECT tenant, kind, id, rev, saved_at, body FROM relay_records WHERE kind = ?1 ORDER BY number

-- name: select_records_of_tenant
SELECT tenant, kind, id, rev, saved_at, body FROM relay_records WHERE kind = ?1 AND tenant = ?2 ORDER BY number


-- name: upsert_task
INSERT INTO relay_tasks (tenant, agent, kind, id, saved_at, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (tenant, agent, kind, id) DO UPDATE SET saved_at = excluded.saved_at, body = excluded.body

-- name: select_task
SELECT tenant, agent, kind, id, saved_at, body FROM relay_tasks
WHERE tenant = ?1 AND agent = ?2 AND kind = ?3 AND id = ?4

-- name: delete_tasks
-- What a message waits for stays, however old it is. So do conversations: a forgotten one could be named again
-- by anybody, as if it were new.
DELETE FROM relay_tasks WHERE number IN (
  SELECT number FROM relay_tasks AS old WHERE tenant = ?1 AND kind <> 'context' AND saved_at < ?2 AND NOT EXISTS (
    SELECT 1 FROM holds WHERE tenant = ?1 AND task_id = old.id AND sink = old.agent AND status = 'PENDING'
  ) ORDER BY saved_at LIMIT ?3
) RETURNING 1


-- name: insert_hold
INSERT INTO holds (
  id, tenant, case_id, rev, status, detection_source, source, sink, task_id, policy_name, correlation_id,
  created_at, resolved_at, body, envelope
) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
ON CONFLICT DO NOTHING

-- name: update_hold
UPDATE holds SET
  rev = ?4, status = ?5, detection_source = ?6, source = ?7, sink = ?8, task_id = ?9, policy_name = ?10,
  correlation_id = ?11, created_at = ?12, resolved_at = ?13, body = ?14, envelope = ?15
WHERE id = ?1 AND tenant = ?2 AND case_id = ?3 AND rev = ?4 - 1

-- name: select_holds
SELECT
  id, tenant, case_id, rev, status, detection_source, source, sink, task_id, policy_name, correlation_id,
  created_at, resolved_at, body, envelope
FROM holds

-- name: count_holds
SELECT count(*) FROM holds

-- name: delete_holds
DELETE FROM holds WHERE number IN (
  SELECT number FROM holds
  WHERE tenant = ?1 AND status IN ('APPROVED', 'REJECTED', 'EXPIRED', 'WITHDRAWN')
    AND created_at < ?2 AND coalesce(resolved_at, created_at) < ?2
  LIMIT ?3
) RETURNING 1


-- name: insert_audit_event
-- The event continues the chain of its tenant. `audit_link` is a function of the writing connection.
WITH place (number, seq, previous) AS (
  SELECT
    (SELECT coalesce(max(number), 0) + 1 FROM audit_events),
    coalesce((SELECT count FROM audit_heads WHERE tenant = ?2), 0) + 1,
    coalesce((SELECT digest FROM audit_heads WHERE tenant = ?2), ?16)
)
INSERT INTO audit_events (
  id, tenant, at, type, action, transport, source_agent, source_user, sink_agent, correlation_id, task_id, body,
  salt, body_digest, outline_digest, number, seq, previous, digest
) SELECT
  ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, number, seq, previous,
  audit_link(number, seq, previous, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?14, ?15)
FROM place

-- name: move_audit_head
INSERT INTO audit_heads (tenant, count, digest, deleted, deleted_digest)
SELECT tenant, seq, digest, 0, ?2 FROM audit_events WHERE id = ?1
ON CONFLICT (tenant) DO UPDATE SET count = excluded.count, digest = excluded.digest

-- name: select_audit_events
SELECT
  id, tenant, at, type, action, transport, source_agent, source_user, sink_agent, correlation_id, task_id, body
FROM audit_events

-- name: select_numbered_audit_events
SELECT
  number, id, tenant, at, type, action, transport, source_agent, source_user, sink_agent, correlation_id, task_id,
  body
FROM audit_events

-- name: select_first_number
-- Where to begin for a moment: numbers grow with time, though not strictly.
SELECT min(number) FROM audit_events INDEXED BY audit_events_by_time WHERE tenant = ?1 AND at >= ?2

-- name: count_audit_events
SELECT count(*) FROM audit_events

-- name: select_audit_event
SELECT
  id, tenant, at, type, action, transport, source_agent, source_user, sink_agent, correlation_id, task_id, body
FROM audit_events WHERE tenant = ?1 AND id = ?2

-- name: count_traces
SELECT count(DISTINCT correlation_id) FROM audit_events

-- name: select_traces
-- Of each correlation id all events count, also those that were not asked for.
WITH asked (correlation_id) AS (SELECT DISTINCT correlation_id FROM audit_events {terms})
SELECT asked.correlation_id, min(at), max(at), count(*)
FROM asked JOIN audit_events AS event ON event.tenant = ? AND event.correlation_id = asked.correlation_id
GROUP BY asked.correlation_id ORDER BY max(at) DESC, max(number) DESC LIMIT ? OFFSET ?

-- name: select_audited_tenants
-- One step per tenant, however many events each has.
WITH RECURSIVE audited (tenant) AS (
  SELECT min(tenant) FROM audit_events
  UNION ALL
  SELECT (SELECT min(tenant) FROM audit_events WHERE tenant > audited.tenant) FROM audited
  WHERE audited.tenant IS NOT NULL
)
SELECT tenant FROM audited WHERE tenant IS NOT NULL

-- name: select_audit_events_to_redact
SELECT
  id, tenant, at, type, action, transport, source_agent, source_user, sink_agent, correlation_id, task_id, body
FROM audit_events WHERE tenant = ?1 AND redacted = 0 AND at < ?2 ORDER BY at, number LIMIT ?3

-- name: redact_audit_event
UPDATE audit_events SET body = ?3, redacted = 1, salt = CASE WHEN body = ?3 THEN salt END
WHERE tenant = ?1 AND id = ?2

-- name: note_deleted_audit_events
-- Only from the beginning of the chain, so that the rest can be verified. Both statements choose the same rows.
WITH oldest AS (SELECT number, at FROM audit_events WHERE tenant = ?1 ORDER BY number LIMIT ?3),
expired (last) AS (
  SELECT max(number) FROM oldest WHERE number < coalesce((SELECT min(number) FROM oldest WHERE at >= ?2), ?4)
)
UPDATE audit_heads SET deleted = seq, deleted_digest = audit_events.digest
FROM expired JOIN audit_events ON audit_events.number = expired.last
WHERE audit_heads.tenant = ?1 AND seq IS NOT NULL

-- name: delete_audit_events
WITH oldest AS (SELECT number, at FROM audit_events WHERE tenant = ?1 ORDER BY number LIMIT ?3)
DELETE FROM audit_events WHERE number IN (
  SELECT number FROM oldest WHERE number < coalesce((SELECT min(number) FROM oldest WHERE at >= ?2), ?4)
) RETURNING 1


-- name: begin_reading
BEGIN DEFERRED

-- name: select_case_sizes
SELECT number, version FROM cases WHERE number > ?1 ORDER BY number LIMIT ?2

-- name: select_stored_cases
SELECT number, id, owner, status, version, due_at, waits_until, closed_at, state, offer
FROM cases LEFT JOIN offers ON case_number = number WHERE number > ?1 AND number <= ?2 ORDER BY number

-- name: select_stored_events
SELECT case_number, seq, type, at, actor, data, salt, data_digest, previous, digest, state_digest
FROM events WHERE case_number > ?1 AND case_number <= ?2 ORDER BY case_number, seq

-- name: select_stored_grants
SELECT
  case_number, id, owner, tool, agent, patterns, uses, used, granted_at, expires_at, granted_by, call_id, revoked_at,
  revoked_by, open_until
FROM grants WHERE case_number > ?1 AND case_number <= ?2 ORDER BY case_number, number

-- name: select_log_entries
SELECT events.rowid, case_number, id, digest FROM events LEFT JOIN cases ON number = case_number
WHERE events.rowid > ?1 ORDER BY events.rowid LIMIT ?2

-- name: select_stray_rows
SELECT 'offers', case_number FROM offers WHERE NOT EXISTS (SELECT 1 FROM cases WHERE number = case_number)
UNION ALL
SELECT 'grants', case_number FROM grants WHERE NOT EXISTS (SELECT 1 FROM cases WHERE number = case_number)
UNION ALL
SELECT 'grants', case_number FROM grants WHERE number NOT BETWEEN 1 AND (SELECT count(*) FROM grants)
LIMIT ?1

-- name: select_log_size
SELECT (SELECT count(*) FROM cases), (SELECT coalesce(max(rowid), 0) FROM events)

-- name: select_audit_heads
SELECT tenant, count, digest, deleted, deleted_digest FROM audit_heads ORDER BY tenant

-- name: select_chained_audit_rows
SELECT
  number, seq, previous, id, tenant, at, type, action, transport, source_agent, source_user, sink_agent,
  correlation_id, task_id, body_digest, outline_digest, digest, body, salt, redacted
FROM audit_events WHERE number > ?1 ORDER BY number LIMIT ?2

-- name: insert_checkpoint
INSERT INTO checkpoints (made_at, document) VALUES (?1, ?2)

-- name: select_checkpoints
SELECT number, document FROM checkpoints WHERE number > ?1 ORDER BY number LIMIT ?2

-- name: select_last_checkpoint
SELECT document FROM checkpoints ORDER BY number DESC LIMIT 1

-- name: insert_passkey
INSERT INTO passkeys (id, counter, passkey) VALUES (?1, ?2, ?3)

-- name: select_passkey
SELECT passkey, counter, used_at FROM passkeys WHERE id = ?1

-- name: select_passkeys
SELECT passkey, counter, used_at FROM passkeys ORDER BY number

-- name: update_passkey_counter
UPDATE passkeys SET counter = ?3, used_at = ?4 WHERE id = ?1 AND counter = ?2

-- name: delete_passkey
DELETE FROM passkeys WHERE id = ?1

-- name: insert_passkey_invitation
INSERT INTO passkey_invitations (digest, expires_at, invitation) VALUES (?1, ?2, ?3)

-- name: select_passkey_invitation
SELECT invitation FROM passkey_invitations WHERE digest = ?1

-- name: delete_passkey_invitation
DELETE FROM passkey_invitations WHERE digest = ?1

-- name: delete_expired_passkey_invitations
DELETE FROM passkey_invitations WHERE expires_at <= ?1

-- name: insert_verification_attempt
INSERT INTO verification_attempts (id, case_number, version, expires_at, attempt)
SELECT ?1, number, ?3, ?4, ?5 FROM cases WHERE id = ?2
AND ?6 > (SELECT count(*) FROM verification_attempts WHERE case_number = cases.number)

-- name: select_verification_attempt
SELECT attempt FROM verification_attempts WHERE id = ?1

-- name: update_verification_attempt
UPDATE verification_attempts SET version = ?3, attempt = ?4 WHERE id = ?1 AND version = ?2

-- name: delete_verification_attempt
DELETE FROM verification_attempts WHERE id = ?1

-- name: delete_verification_attempts_of_case
DELETE FROM verification_attempts WHERE case_number = (SELECT number FROM cases WHERE id = ?1)

-- name: delete_expired_verification_attempts
DELETE FROM verification_attempts WHERE expires_at <= ?1
