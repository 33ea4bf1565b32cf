-- enter
INSERT INTO gateway_tasks (task, agent, owner, created, open, record)
VALUES (:task, :agent, :owner, :created, :open, :record) ON CONFLICT DO NOTHING

-- record
INSERT INTO gateway_tasks (task, agent, owner, created, open, record)
SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, 0, value -> 4 FROM json_each(:rows) WHERE true
ON CONFLICT DO NOTHING

-- record (postgres)
INSERT INTO gateway_tasks (task, agent, owner, created, open, record)
SELECT value ->> 0, value ->> 1, value ->> 2, CAST(value ->> 3 AS double precision), 0, value ->> 4
FROM json_array_elements(CAST(:rows AS json)) AS each (value)
ON CONFLICT DO NOTHING

-- entry
SELECT task, agent, owner, created, open, record FROM gateway_tasks WHERE task = :task

-- listed
SELECT task, agent, owner, created, open, record FROM gateway_tasks
WHERE owner = :owner AND (created, task) < (:before, :before_id) ORDER BY created DESC, task DESC LIMIT :size

-- listed_open
SELECT task, agent, owner, created, open, record FROM gateway_tasks
WHERE owner = :owner AND open = 1 AND (created, task) < (:before, :before_id)
ORDER BY created DESC, task DESC LIMIT :size

-- listed_agent
SELECT task, agent, owner, created, open, record FROM gateway_tasks
WHERE owner = :owner AND agent = :agent AND (created, task) < (:before, :before_id)
ORDER BY created DESC, task DESC LIMIT :size

-- listed_agent_open
SELECT task, agent, owner, created, open, record FROM gateway_tasks
WHERE owner = :owner AND open = 1 AND agent = :agent AND (created, task) < (:before, :before_id)
ORDER BY created DESC, task DESC LIMIT :size

-- close
UPDATE gateway_tasks SET open = 0 WHERE task = :task AND open = 1

-- ended
SELECT g.task FROM gateway_tasks g LEFT JOIN tasks t ON t.id = g.task
WHERE g.open = 1 AND (t.id IS NULL OR t.ended IS NOT NULL) LIMIT :size

-- forget_records
DELETE FROM gateway_tasks WHERE task IN (
    SELECT task FROM gateway_tasks WHERE task >= 'ch-' AND task < :before AND record IS NOT NULL LIMIT :size
)

-- forget_tasks
DELETE FROM gateway_tasks WHERE task IN (
    SELECT g.task FROM gateway_tasks g LEFT JOIN tasks t ON t.id = g.task
    WHERE g.task < :before AND g.record IS NULL AND g.open = 0 AND t.id IS NULL LIMIT :size
)

-- conversation
SELECT agent, owner FROM conversations WHERE id = :id

-- channel
SELECT agent, owner FROM channels WHERE id = :id
