-- What the cases of an owner use, so that quotas need no count. Triggers keep it right, whatever writes a case;
-- cases without an owner are under the empty name.
CREATE TABLE owner_usage (
  owner        TEXT    PRIMARY KEY,
  open_cases   INTEGER NOT NULL,
  stored_bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

INSERT INTO owner_usage (owner, open_cases, stored_bytes)
SELECT coalesce(owner, ''), count(waits_until), coalesce(sum(length(offer)), 0)
FROM cases LEFT JOIN offers ON case_number = number GROUP BY owner;

CREATE TRIGGER usage_grows_with_a_case AFTER INSERT ON offers
BEGIN
  INSERT INTO owner_usage (owner, open_cases, stored_bytes)
  SELECT coalesce(owner, ''), waits_until IS NOT NULL, length(new.offer) FROM cases WHERE number = new.case_number
  ON CONFLICT (owner) DO UPDATE SET
    open_cases = open_cases + excluded.open_cases, stored_bytes = stored_bytes + excluded.stored_bytes;
END;

CREATE TRIGGER usage_shrinks_when_a_case_closes AFTER UPDATE OF waits_until ON cases
WHEN old.waits_until IS NOT NULL AND new.waits_until IS NULL
BEGIN
  UPDATE owner_usage SET open_cases = open_cases - 1 WHERE owner = coalesce(new.owner, '');
END;

CREATE TRIGGER usage_shrinks_when_an_offer_is_erased AFTER DELETE ON offers
BEGIN
  UPDATE owner_usage SET stored_bytes = stored_bytes - length(old.offer)
  WHERE owner = (SELECT coalesce(owner, '') FROM cases WHERE number = old.case_number);
END;
