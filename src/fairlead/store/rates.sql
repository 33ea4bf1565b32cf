-- take
INSERT INTO rates (key, next) VALUES (:key, :now + :step)
ON CONFLICT (key) DO UPDATE SET
    next = CASE WHEN rates.next < :now OR rates.next > :absurd THEN :now ELSE rates.next END + :step
WHERE rates.next <= :highest OR rates.next > :absurd
RETURNING next

-- next
SELECT next FROM rates WHERE key = :key

-- prune_rates
DELETE FROM rates WHERE key IN (SELECT key FROM rates WHERE next <= :now ORDER BY next LIMIT :most)

-- prune_rates (postgres)
DELETE FROM rates WHERE key IN (
    SELECT key FROM rates WHERE next <= :now ORDER BY next LIMIT :most FOR UPDATE SKIP LOCKED
)

-- lock
SELECT :lock

-- lock (postgres)
SELECT pg_advisory_xact_lock(:lock)

-- newest
SELECT number FROM rate_takes WHERE key = :key ORDER BY number DESC LIMIT 1

-- taken
SELECT until FROM rate_takes WHERE key = :key AND number = :number

-- note
INSERT INTO rate_takes (key, number, until) VALUES (:key, :number, :until)

-- trim
DELETE FROM rate_takes WHERE key = :key AND number <= :number

-- prune_takes
DELETE FROM rate_takes WHERE (key, number) IN (
    SELECT key, number FROM rate_takes WHERE until <= :now ORDER BY until LIMIT :most
)

-- prune_takes (postgres)
DELETE FROM rate_takes WHERE (key, number) IN (
    SELECT key, number FROM rate_takes WHERE until <= :now ORDER BY until LIMIT :most FOR UPDATE SKIP LOCKED
)
