-- Idempotency keys: a claim that runs, or what it gave. Keys are digests, requests too.
CREATE TABLE idempotency (
    key TEXT PRIMARY KEY,
    request BYTEA NOT NULL,
    -- Whose claim it is, random for each: it fences those who come late.
    owner TEXT NOT NULL,
    -- While it runs, the end of its lease; afterwards, how long the record is kept. Then the row counts for nothing.
    until DOUBLE PRECISION NOT NULL,
    -- 1 when another process waits for it and wants to be told.
    awaited INTEGER NOT NULL,
    record BYTEA,
    -- A failure for those who waited: the key itself is free again.
    shared BYTEA
);
CREATE INDEX idempotency_until ON idempotency (until);

-- Rates: when the calls counted so far have been spread, in nanoseconds, so that sums of small steps stay exact.
CREATE TABLE rates (
    key TEXT PRIMARY KEY,
    next BIGINT NOT NULL
);
CREATE INDEX rates_next ON rates (next);

-- Sliding windows: the newest takes of a key, numbered, and until when each counts.
CREATE TABLE rate_takes (
    key TEXT NOT NULL,
    number BIGINT NOT NULL,
    until DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (key, number)
);
CREATE INDEX rate_takes_until ON rate_takes (until);

-- Secrets: each under a data key, and each data key under the master key, which is not here.
CREATE TABLE secret_keys (
    id TEXT PRIMARY KEY,
    master TEXT NOT NULL,
    nonce BYTEA NOT NULL,
    value BYTEA NOT NULL,
    created DOUBLE PRECISION NOT NULL
);
CREATE TABLE secrets (
    name TEXT PRIMARY KEY,
    key TEXT NOT NULL,
    nonce BYTEA NOT NULL,
    value BYTEA NOT NULL,
    updated DOUBLE PRECISION NOT NULL
);

-- (back)
DROP TABLE secrets;
DROP TABLE secret_keys;
DROP TABLE rate_takes;
DROP TABLE rates;
DROP TABLE idempotency;
