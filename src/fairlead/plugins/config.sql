-- get
SELECT sealed FROM plugin_config WHERE plugin = :plugin AND agent = :agent AND key = :key

-- all_of
SELECT key, sealed FROM plugin_config WHERE plugin = :plugin AND agent = :agent ORDER BY key

-- count
SELECT count(*) FROM plugin_config WHERE plugin = :plugin AND agent = :agent AND key <> :key

-- put
INSERT INTO plugin_config (plugin, agent, key, sealed, updated)
VALUES (:plugin, :agent, :key, :sealed, :updated)
ON CONFLICT (plugin, agent, key) DO UPDATE SET sealed = excluded.sealed, updated = excluded.updated

-- remove
DELETE FROM plugin_config WHERE plugin = :plugin AND agent = :agent AND key = :key

-- sweep_agent
DELETE FROM plugin_config WHERE agent = :agent

-- sweep_plugin
DELETE FROM plugin_config WHERE plugin = :plugin

-- database_key
SELECT sealed FROM plugin_keys WHERE plugin = :plugin

-- add_database_key
INSERT INTO plugin_keys (plugin, sealed, created) VALUES (:plugin, :sealed, :created)
ON CONFLICT (plugin) DO NOTHING

-- remove_database_key
DELETE FROM plugin_keys WHERE plugin = :plugin
