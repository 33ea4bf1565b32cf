-- key_by_hash
SELECT id, prefix, name, owner, per_minute, agents, permissions, created, expires, revoked, used
FROM api_keys WHERE hash = :hash

-- agent_by_id
SELECT id, owner, visibility, mcp_enabled, created, updated, instance, about, mode, lease, epoch
FROM agents WHERE id = :id

-- agents_of
SELECT id, owner, visibility, mcp_enabled, created, updated, instance, about, mode, lease, epoch
FROM agents WHERE owner = :owner ORDER BY id

-- set_agent
UPDATE agents SET
    visibility = coalesce(:visibility, visibility), mcp_enabled = coalesce(:mcp_enabled, mcp_enabled), updated = :now
WHERE id = :id AND owner = :owner

-- forget_others
DELETE FROM agents WHERE id = :id AND (instance IS NOT NULL OR owner <> :owner)

-- set_own_agent
INSERT INTO agents (id, owner, visibility, mcp_enabled, created, updated, epoch)
VALUES (:id, :owner, coalesce(:visibility, 'private'), coalesce(:mcp_enabled, 1), :now, :now, 0)
ON CONFLICT (id) DO UPDATE SET
    visibility = coalesce(:visibility, agents.visibility), mcp_enabled = coalesce(:mcp_enabled, agents.mcp_enabled),
    updated = :now

-- agents_on
SELECT id FROM agents WHERE instance = :instance
