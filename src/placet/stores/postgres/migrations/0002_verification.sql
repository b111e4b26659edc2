-- Passkeys of people, the invitations to register them, and answers that wait for a proof of the person.
CREATE TABLE passkeys (
  number  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id      text COLLATE "C" NOT NULL UNIQUE,
  counter bigint NOT NULL,
  used_at bigint,
  passkey bytea  NOT NULL
);

CREATE TABLE passkey_invitations (
  digest     text COLLATE "C" PRIMARY KEY,
  expires_at bigint NOT NULL,
  invitation bytea  NOT NULL
);
CREATE INDEX passkey_invitations_by_expiry ON passkey_invitations (expires_at);

CREATE TABLE verification_attempts (
  id          text COLLATE "C" PRIMARY KEY,
  case_number bigint NOT NULL REFERENCES cases (number),
  version     bigint NOT NULL,
  expires_at  bigint NOT NULL,
  attempt     bytea  NOT NULL
);
CREATE INDEX verification_attempts_of_case ON verification_attempts (case_number);
CREATE INDEX verification_attempts_by_expiry ON verification_attempts (expires_at);
