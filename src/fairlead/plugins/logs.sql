-- add
INSERT INTO insights (id, at, plugin, agent, level, method, message, status, body, search, took_ms)
VALUES (:id, :at, :plugin, :agent, :level, :method, :message, :status, :body, :search, :took_ms)
ON CONFLICT (id) DO NOTHING

-- prune
DELETE FROM insights WHERE id IN (SELECT id FROM insights WHERE id < :before ORDER BY id LIMIT :most)

-- oldest_kept
SELECT id FROM insights ORDER BY id DESC LIMIT 1 OFFSET :rows

-- plugins
SELECT plugin, count(*) FROM insights GROUP BY plugin ORDER BY plugin

-- forget
DELETE FROM insights WHERE plugin = :plugin
