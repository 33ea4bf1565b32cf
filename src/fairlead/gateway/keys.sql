-- add
INSERT INTO api_keys (id, hash, prefix, name, owner, per_minute, agents, permissions, created, expires)
VALUES (:id, :hash, :prefix, :name, :owner, :per_minute, :agents, :permissions, :created, :expires)

-- all
SELECT id, prefix, name, owner, per_minute, agents, permissions, created, expires, revoked, used
FROM api_keys ORDER BY created, id LIMIT :most

-- of_owner
SELECT id, prefix, name, owner, per_minute, agents, permissions, created, expires, revoked, used
FROM api_keys WHERE owner = :owner ORDER BY created, id LIMIT :most

-- of_agent
SELECT id, prefix, name, owner, per_minute, agents, permissions, created, expires, revoked, used
FROM api_keys WHERE agents = :agents AND substr(prefix, 1, 4) = 'bak_' AND revoked IS NULL

-- by_id
SELECT id, prefix, name, owner, per_minute, agents, permissions, created, expires, revoked, used
FROM api_keys WHERE id = :id

-- by_word
SELECT id, prefix, name, owner, per_minute, agents, permissions, created, expires, revoked, used
FROM api_keys WHERE id = :word OR name = :word OR prefix = :word OR hash = :hash ORDER BY created, id LIMIT 20

-- good
SELECT id FROM api_keys
WHERE id IN (SELECT value FROM json_each(:ids)) AND revoked IS NULL AND (expires IS NULL OR expires > :now)

-- good (postgres)
SELECT id FROM api_keys
WHERE id = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))
    AND revoked IS NULL AND (expires IS NULL OR expires > :now)

-- revoke
UPDATE api_keys SET revoked = :now WHERE id = :id AND revoked IS NULL

-- use
UPDATE api_keys SET used = :at WHERE id = :id AND (used IS NULL OR used < :at)

-- any
SELECT 1 FROM api_keys WHERE revoked IS NULL AND (expires IS NULL OR expires > :now) LIMIT 1
