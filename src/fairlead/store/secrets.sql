-- keys
SELECT id, master, nonce, value FROM secret_keys ORDER BY created DESC, id

-- add_key
INSERT INTO secret_keys (id, master, nonce, value, created) VALUES (:id, :master, :nonce, :value, :created)

-- wrap_key
UPDATE secret_keys SET master = :master, nonce = :nonce, value = :value WHERE id = :id

-- all
SELECT name, key, nonce, value FROM secrets ORDER BY name

-- get
SELECT key, nonce, value FROM secrets WHERE name = :name

-- names
SELECT name, updated FROM secrets ORDER BY name

-- put
INSERT INTO secrets (name, key, nonce, value, updated) VALUES (:name, :key, :nonce, :value, :updated)
ON CONFLICT (name) DO UPDATE SET
    key = excluded.key, nonce = excluded.nonce, value = excluded.value, updated = excluded.updated

-- again
UPDATE secrets SET key = :key, nonce = :nonce, value = :value WHERE name = :name

-- remove
DELETE FROM secrets WHERE name = :name

-- lock
SELECT 1

-- lock (postgres)
SELECT pg_advisory_xact_lock(7226153471)
