-- agents
SELECT id, owner, visibility, mcp_enabled, created, updated, instance, about, mode, lease, epoch
FROM agents ORDER BY id

-- tasks
SELECT g.task, g.agent, g.owner, g.created, g.record, t.state, t.started, t.ended, t.latest, t.queue, t.worker
FROM gateway_tasks g LEFT JOIN tasks t ON t.id = g.task
WHERE g.created < :before AND (:open = 0 OR (g.open = 1 AND t.ended IS NULL))
ORDER BY g.created DESC, g.task DESC LIMIT :most

-- tasks_of
SELECT g.task, g.agent, g.owner, g.created, g.record, t.state, t.started, t.ended, t.latest, t.queue, t.worker
FROM gateway_tasks g LEFT JOIN tasks t ON t.id = g.task
WHERE g.owner = :owner AND g.created < :before AND (:open = 0 OR (g.open = 1 AND t.ended IS NULL))
    AND (:agents IS NULL OR g.agent IN (SELECT value FROM json_each(:agents)))
ORDER BY g.created DESC, g.task DESC LIMIT :most

-- tasks_of (postgres)
SELECT g.task, g.agent, g.owner, g.created, g.record, t.state, t.started, t.ended, t.latest, t.queue, t.worker
FROM gateway_tasks g LEFT JOIN tasks t ON t.id = g.task
WHERE g.owner = :owner AND g.created < :before AND (:open = 0 OR (g.open = 1 AND t.ended IS NULL))
    AND (CAST(:agents AS text) IS NULL
        OR g.agent = ANY (ARRAY(SELECT json_array_elements_text(CAST(:agents AS json)))))
ORDER BY g.created DESC, g.task DESC LIMIT :most

-- task
SELECT g.task, g.agent, g.owner, g.created, g.record, t.state, t.started, t.ended, t.latest, t.queue, t.worker
FROM gateway_tasks g LEFT JOIN tasks t ON t.id = g.task WHERE g.task = :task

-- deliveries
SELECT d.id, d.webhook, d.task, g.agent, g.owner, d.renderer, d.status, d.attempts, d.response, d.error,
    d.host, d.due, d.waiting, d.created, d.attempted, d.completed
FROM webhook_deliveries d JOIN gateway_tasks g ON g.task = d.task
WHERE d.created < :before ORDER BY d.created DESC, d.id DESC LIMIT :most

-- deliveries_of
SELECT d.id, d.webhook, d.task, g.agent, g.owner, d.renderer, d.status, d.attempts, d.response, d.error,
    d.host, d.due, d.waiting, d.created, d.attempted, d.completed
FROM webhook_deliveries d JOIN gateway_tasks g ON g.task = d.task
WHERE g.owner = :owner AND d.created < :before
    AND (:agents IS NULL OR g.agent IN (SELECT value FROM json_each(:agents)))
ORDER BY d.created DESC, d.id DESC LIMIT :most

-- deliveries_of (postgres)
SELECT d.id, d.webhook, d.task, g.agent, g.owner, d.renderer, d.status, d.attempts, d.response, d.error,
    d.host, d.due, d.waiting, d.created, d.attempted, d.completed
FROM webhook_deliveries d JOIN gateway_tasks g ON g.task = d.task
WHERE g.owner = :owner AND d.created < :before
    AND (CAST(:agents AS text) IS NULL
        OR g.agent = ANY (ARRAY(SELECT json_array_elements_text(CAST(:agents AS json)))))
ORDER BY d.created DESC, d.id DESC LIMIT :most
