-- Drafts and long answers count as stored content too. An event is long if its data has more than 4 KiB.
UPDATE owner_usage SET stored_bytes = stored_bytes
  + (SELECT coalesce(sum(length(entries)), 0) FROM drafts JOIN cases ON number = case_number
     WHERE coalesce(cases.owner, '') = owner_usage.owner)
  + (SELECT coalesce(sum(length(data)), 0) FROM events JOIN cases ON number = case_number
     WHERE length(data) > 4096 AND coalesce(cases.owner, '') = owner_usage.owner);

CREATE TRIGGER usage_grows_with_a_draft AFTER INSERT ON drafts
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes + length(new.entries)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = new.case_number);
END;

CREATE TRIGGER usage_changes_with_a_draft AFTER UPDATE OF entries ON drafts
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes + length(new.entries) - length(old.entries)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = new.case_number);
END;

CREATE TRIGGER usage_shrinks_when_a_draft_is_deleted AFTER DELETE ON drafts
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes - length(old.entries)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = old.case_number);
END;

CREATE TRIGGER usage_grows_with_a_long_event AFTER INSERT ON events WHEN length(new.data) > 4096
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes + length(new.data)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = new.case_number);
END;

CREATE TRIGGER usage_shrinks_when_a_long_event_is_erased AFTER UPDATE OF data ON events
WHEN length(old.data) > 4096 AND new.data IS NULL
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes - length(old.data)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = old.case_number);
END;
