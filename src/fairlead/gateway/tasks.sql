-- enter
INSERT INTO gateway_tasks (task, agent, owner, created, open, record)
VALUES (:task, :agent, :owner, :created, :open, :record) ON CONFLICT DO NOTHING

-- enter_packed (postgres)
INSERT INTO gateway_tasks (task, agent, owner, created, open, record)
SELECT given.task, given.agent, given.owner, given.created, given.open, NULL
FROM json_to_recordset(CAST(:rows AS json)) AS given (
    task text, agent text, owner text, created double precision, open integer
) ON CONFLICT DO NOTHING

-- record
INSERT INTO gateway_tasks (task, agent, owner, created, open, record)
VALUES :rows ON CONFLICT DO NOTHING

-- record (postgres)
INSERT INTO gateway_tasks (task, agent, owner, created, open, record)
SELECT value ->> 0, value ->> 1, value ->> 2, CAST(value ->> 3 AS double precision), CAST(value ->> 4 AS integer),
    value ->> 5
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

-- counted_agent
SELECT count(*) FROM gateway_tasks WHERE owner = :owner AND agent = :agent

-- counted_agent_wanted
SELECT count(*) FROM gateway_tasks g LEFT JOIN tasks t ON t.id = g.task
WHERE g.owner = :owner AND g.agent = :agent
    AND coalesce(t.state, json_extract(g.record, '$.state')) IN (SELECT value FROM json_each(:states))
    AND coalesce(t.ended, t.started, t.created, json_extract(g.record, '$.ended')) >= :after
    AND (:context = '' OR :context = coalesce(nullif(coalesce(json_extract(t.metadata, '$.gateway.context_id'),
        json_extract(g.record, '$.context_id')), ''), g.task))

-- counted_agent_wanted (postgres)
SELECT count(*) FROM gateway_tasks g LEFT JOIN tasks t ON t.id = g.task
WHERE g.owner = :owner AND g.agent = :agent
    AND coalesce(t.state, CAST(g.record AS json) ->> 'state')
        = ANY (ARRAY(SELECT json_array_elements_text(CAST(:states AS json))))
    AND coalesce(t.ended, t.started, t.created, CAST(CAST(g.record AS json) ->> 'ended' AS double precision)) >= :after
    AND (:context = '' OR :context = coalesce(nullif(coalesce(CAST(t.metadata AS json) #>> '{gateway,context_id}',
        CAST(g.record AS json) ->> 'context_id'), ''), g.task))

-- close
UPDATE gateway_tasks SET open = 0 WHERE task = :task AND open = 1

-- close_all
UPDATE gateway_tasks SET open = 0 WHERE open = 1 AND task IN (SELECT value FROM json_each(:ids))

-- close_all (postgres)
UPDATE gateway_tasks SET open = 0
WHERE open = 1 AND task = ANY (ARRAY(SELECT json_array_elements_text(CAST(:ids AS json))))

-- ended
SELECT ended, id FROM tasks
WHERE ended IS NOT NULL AND ended >= :since AND ended < :until AND (ended, id) > (:since, :after)
ORDER BY ended, id LIMIT :size

-- forget_records
DELETE FROM gateway_tasks WHERE task IN (
    SELECT task FROM gateway_tasks WHERE task >= 'ch-' AND task < :before AND record IS NOT NULL LIMIT :size
)

-- forget_tasks
DELETE FROM gateway_tasks WHERE task IN (
    SELECT g.task FROM gateway_tasks g LEFT JOIN tasks t ON t.id = g.task
    WHERE g.task < :before AND g.record IS NULL AND t.id IS NULL LIMIT :size
)

-- conversation
SELECT agent, owner FROM conversations WHERE id = :id

-- channel
SELECT agent, owner, closed, generation FROM channels WHERE id = :id
