-- add
INSERT INTO gateway_files (id, owner, filename, content_type, secret, created)
VALUES (:id, :owner, :filename, :content_type, :secret, :created) ON CONFLICT DO NOTHING

-- get
SELECT id, owner, filename, content_type, secret, created, claimed, artifact, size, sha256
FROM gateway_files WHERE id = :id

-- claim
UPDATE gateway_files SET claimed = :now
WHERE id = :id AND artifact IS NULL AND (claimed IS NULL OR claimed < :stale)

-- release
-- To nothing that is NULL: some of its content may be on disk.
UPDATE gateway_files SET claimed = 0 WHERE id = :id AND claimed = :claimed AND artifact IS NULL

-- complete
UPDATE gateway_files SET artifact = :artifact, size = :size, sha256 = :sha256
WHERE id = :id AND claimed = :claimed AND (artifact IS NULL OR artifact = :artifact)

-- prune
DELETE FROM gateway_files WHERE id IN (
    SELECT id FROM gateway_files
    WHERE artifact IS NULL AND claimed IS NULL AND created < :before ORDER BY created LIMIT 100
)

-- unfinished
SELECT id, owner, created FROM gateway_files
WHERE artifact IS NULL AND created < :before AND (created, id) > (:since, :after)
ORDER BY created, id LIMIT :size

-- old
-- It is kept from its upload on, which its address allowed for some time.
SELECT id, owner, created FROM gateway_files
WHERE artifact IS NOT NULL AND created < :before AND claimed < :before AND (created, id) > (:since, :after)
ORDER BY created, id LIMIT :size

-- held
SELECT coalesce(sum(size), 0) FROM gateway_files WHERE owner = :owner

-- lock_owner
SELECT 1

-- lock_owner (postgres)
SELECT pg_advisory_xact_lock(hashtextextended(:owner::text, 7226153473))

-- forget
DELETE FROM gateway_files WHERE id = :id
