-- claim
INSERT INTO idempotency (key, request, owner, until, awaited)
VALUES (:key, :request, :owner, :until, 0)
ON CONFLICT (key) DO UPDATE SET
    request = excluded.request, owner = excluded.owner, until = excluded.until, awaited = 0, record = NULL, shared = NULL
WHERE idempotency.until <= :now OR idempotency.shared IS NOT NULL OR idempotency.owner = excluded.owner
RETURNING 1

-- look
SELECT request, owner, until, record, shared FROM idempotency WHERE key = :key

-- wait
UPDATE idempotency SET awaited = 1
WHERE key = :key AND record IS NULL AND shared IS NULL AND until > :now
RETURNING owner, until

-- renew
UPDATE idempotency SET until = :until
WHERE key = :key AND owner = :owner AND record IS NULL AND shared IS NULL

-- keep
INSERT INTO idempotency (key, request, owner, until, awaited, record)
VALUES (:key, :request, :owner, :until, 0, :record)
ON CONFLICT (key) DO UPDATE SET
    request = excluded.request, owner = excluded.owner, until = excluded.until, record = excluded.record, shared = NULL
WHERE idempotency.owner = excluded.owner OR idempotency.until <= :now OR idempotency.shared IS NOT NULL
RETURNING awaited

-- share
UPDATE idempotency SET shared = :shared, until = :now
WHERE key = :key AND owner = :owner AND record IS NULL AND awaited = 1
RETURNING awaited

-- forget
DELETE FROM idempotency WHERE key = :key AND owner = :owner AND record IS NULL
RETURNING awaited

-- spend
INSERT INTO idempotency (key, request, owner, until, awaited, record)
VALUES (:key, :nothing, :owner, :until, 0, :nothing)
ON CONFLICT (key) DO UPDATE SET owner = excluded.owner
WHERE idempotency.owner = excluded.owner
RETURNING 1

-- prune
DELETE FROM idempotency WHERE key IN (
    SELECT key FROM idempotency WHERE until <= :before ORDER BY until LIMIT :most
)

-- prune (postgres)
DELETE FROM idempotency WHERE key IN (
    SELECT key FROM idempotency WHERE until <= :before ORDER BY until LIMIT :most FOR UPDATE SKIP LOCKED
)
