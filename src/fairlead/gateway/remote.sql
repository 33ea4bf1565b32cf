-- register
INSERT INTO agents (id, owner, visibility, mcp_enabled, created, updated, instance, about, mode, lease, epoch)
VALUES (:id, :owner, 'private', 1, :now, :now, :instance, :about, :mode, :lease, 1)
ON CONFLICT (id) DO UPDATE SET
    updated = :now, instance = :instance, about = :about, mode = :mode, lease = :lease, epoch = agents.epoch + 1
WHERE agents.owner = :owner
RETURNING epoch

-- previous
SELECT owner, about FROM agents WHERE id = :id

-- previous (postgres)
SELECT owner, about FROM agents WHERE id = :id FOR UPDATE

-- set_registered
UPDATE agents SET lease = :lease, about = :about
WHERE id = :id AND owner = :owner AND epoch = :epoch AND instance IS NOT NULL AND about = :known

-- registered
SELECT about FROM agents WHERE id = :id AND owner = :owner AND epoch = :epoch AND instance IS NOT NULL

-- remove
DELETE FROM agents WHERE id = :id AND epoch = :epoch

-- held_tasks
SELECT * FROM tasks WHERE worker = :worker AND lease IS NOT NULL

-- keep_task
UPDATE tasks SET lease = :lease, checkpoint = :acked WHERE id = :id AND run = :run AND worker = :worker

-- open_tasks
SELECT id FROM tasks WHERE queue = :queue AND ended IS NULL ORDER BY created LIMIT :size

-- lost
SELECT * FROM tasks WHERE lease IS NOT NULL AND lease < :until AND substr(queue, 1, 6) = 'agent:'
ORDER BY lease LIMIT 100

-- lost_locked
SELECT * FROM tasks WHERE lease IS NOT NULL AND lease < :until AND substr(queue, 1, 6) = 'agent:'
ORDER BY lease LIMIT 100

-- lost_locked (postgres)
SELECT * FROM tasks WHERE lease IS NOT NULL AND lease < :until AND substr(queue, 1, 6) = 'agent:'
ORDER BY lease LIMIT 100 FOR UPDATE SKIP LOCKED

-- orphans
SELECT tasks.id, agents.about, agents.lease, tasks.due FROM agents JOIN tasks ON tasks.queue = 'agent:' || agents.id
WHERE agents.mode IN ('push', 'busy_reject') AND agents.lease < :now
    AND tasks.ended IS NULL AND tasks.worker IS NULL AND tasks.state IN ('queued', 'running')
ORDER BY tasks.created LIMIT 200

-- taken_over
SELECT tasks.id, agents.about, agents.lease, tasks.due FROM tasks
LEFT JOIN agents ON agents.id = substr(tasks.queue, 7) AND agents.instance IS NOT NULL
WHERE tasks.queue IN (SELECT value FROM json_each(:queues))
    AND tasks.ended IS NULL AND tasks.worker IS NULL AND tasks.state IN ('queued', 'running')
    AND coalesce(agents.lease, 0.0) < :now
ORDER BY tasks.created LIMIT 200

-- taken_over (postgres)
SELECT tasks.id, agents.about, agents.lease, tasks.due FROM tasks
LEFT JOIN agents ON agents.id = substr(tasks.queue, 7) AND agents.instance IS NOT NULL
WHERE tasks.queue = ANY (ARRAY(SELECT json_array_elements_text(CAST(:queues AS json))))
    AND tasks.ended IS NULL AND tasks.worker IS NULL AND tasks.state IN ('queued', 'running')
    AND coalesce(agents.lease, 0.0) < :now
ORDER BY tasks.created LIMIT 200

-- overdue
SELECT 1 FROM tasks WHERE deadline IS NOT NULL AND ended IS NULL AND deadline <= :now ORDER BY deadline LIMIT 1
