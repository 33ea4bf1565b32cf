-- register
INSERT INTO task_webhooks (id, task, url, renderer, token, secret, created, seen, state, run, open)
VALUES (:id, :task, :url, :renderer, :token, :secret, :created, :seen, :state, :run, :open)
ON CONFLICT (task, url, renderer) DO UPDATE SET
    token = coalesce(excluded.token, task_webhooks.token), secret = coalesce(excluded.secret, task_webhooks.secret)
RETURNING id, task, url, renderer, token, secret, created, seen, state, run, open

-- webhooks_of
SELECT id, task, url, renderer, token, secret, created, seen, state, run, open
FROM task_webhooks WHERE task = :task AND renderer = :renderer ORDER BY created, id

-- webhook
SELECT id, task, url, renderer, token, secret, created, seen, state, run, open FROM task_webhooks WHERE id = :id

-- webhook_locked
SELECT id, task, url, renderer, token, secret, created, seen, state, run, open
FROM task_webhooks WHERE id = :id AND open = 1

-- webhook_locked (postgres)
SELECT id, task, url, renderer, token, secret, created, seen, state, run, open
FROM task_webhooks WHERE id = :id AND open = 1 FOR UPDATE SKIP LOCKED

-- remove_webhook
DELETE FROM task_webhooks WHERE id = :id

-- remove_deliveries
DELETE FROM webhook_deliveries WHERE webhook = :id

-- open_tasks
SELECT DISTINCT task FROM task_webhooks WHERE open = 1

-- changed
SELECT task_webhooks.id FROM task_webhooks JOIN tasks ON tasks.id = task_webhooks.task
WHERE task_webhooks.open = 1 AND (tasks.state <> task_webhooks.state OR tasks.run <> task_webhooks.run)
ORDER BY task_webhooks.task, task_webhooks.id LIMIT :size

-- status_events
SELECT number, type, time, data FROM task_events
WHERE task = :task AND number > :since AND type IN ('started', 'clarification', 'input', 'terminal') ORDER BY number

-- advance
UPDATE task_webhooks SET seen = :seen, state = :state, run = :run, open = :open WHERE id = :id

-- add_delivery
INSERT INTO webhook_deliveries (
    id, webhook, task, number, renderer, host, payload, status, attempts, response, due, waiting, created
) VALUES (:id, :webhook, :task, :number, :renderer, :host, :payload, 'pending', 0, 0, :now, 1, :now)
ON CONFLICT DO NOTHING

-- deliveries_of
SELECT
    id, webhook, task, number, renderer, host, payload, status, attempts, response, error, due, created, attempted,
    completed
FROM webhook_deliveries WHERE webhook = :webhook
ORDER BY created DESC, coalesce(number, 9000000000000000) DESC, id DESC LIMIT :size

-- delivery
SELECT
    id, webhook, task, number, renderer, host, payload, status, attempts, response, error, due, created, attempted,
    completed
FROM webhook_deliveries WHERE id = :id

-- lock_taking
SELECT 1

-- lock_taking (postgres)
SELECT pg_advisory_xact_lock(7226153472)

-- under_way
SELECT webhook_deliveries.task, number, host, holder, coalesce(owner, '')
FROM webhook_deliveries LEFT JOIN gateway_tasks ON gateway_tasks.task = webhook_deliveries.task
WHERE lease IS NOT NULL AND lease >= :now

-- ready
SELECT id, task, number, host, owner FROM (
    SELECT
        id, task, number, host, owner, due, created,
        row_number() OVER (PARTITION BY task, number ORDER BY due, id) AS place,
        row_number() OVER (PARTITION BY host ORDER BY due, id) AS turn
    FROM (
        SELECT later.id, later.task, later.number, later.host, later.due, later.created, coalesce(whose.owner, '') AS owner
        FROM webhook_deliveries AS later LEFT JOIN gateway_tasks AS whose ON whose.task = later.task
        WHERE later.waiting = 1 AND later.due <= :now AND (later.lease IS NULL OR later.lease < :now)
        -- Hosts that have all they may have are passed over, however much waits for them.
        AND later.host NOT IN (
            SELECT busy.host FROM webhook_deliveries AS busy WHERE busy.lease IS NOT NULL AND busy.lease >= :now
            GROUP BY busy.host HAVING count(*) >= :each
        )
        -- So are owners that have their share of the places here.
        AND coalesce(whose.owner, '') NOT IN (
            SELECT coalesce(theirs.owner, '') FROM webhook_deliveries AS busy
            LEFT JOIN gateway_tasks AS theirs ON theirs.task = busy.task
            WHERE busy.lease IS NOT NULL AND busy.lease >= :now AND busy.holder = :holder
            GROUP BY coalesce(theirs.owner, '') HAVING count(*) >= :share
        )
        -- So are changes that have all they may have, however many are to be told of one.
        AND (later.task, coalesce(later.number, -1)) NOT IN (
            SELECT busy.task, coalesce(busy.number, -1) FROM webhook_deliveries AS busy
            WHERE busy.lease IS NOT NULL AND busy.lease >= :now
            GROUP BY busy.task, coalesce(busy.number, -1) HAVING count(*) >= :abreast
        )
        -- One change after the other, as long as nothing went wrong: what waits for another attempt lets others pass.
        AND NOT EXISTS (
            SELECT 1 FROM webhook_deliveries AS sooner
            WHERE sooner.webhook = later.webhook AND sooner.number < later.number AND sooner.waiting = 1
            AND (sooner.attempts = 0 OR sooner.lease >= :now)
        )
        ORDER BY later.due LIMIT 2000
    ) AS oldest
) AS ready WHERE place <= :abreast AND turn <= :each ORDER BY due, created, id LIMIT :size

-- claim
UPDATE webhook_deliveries SET
    -- An attempt that was cut off by its process's end is made again, and counts once.
    attempts = attempts + CASE WHEN lease IS NULL THEN 1 ELSE 0 END,
    holder = :holder, lease = :lease, attempted = :now
WHERE id = :id AND waiting = 1 AND (lease IS NULL OR lease < :now)
RETURNING
    id, webhook, task, number, renderer, host, payload, status, attempts, response, error, due, created, attempted,
    completed

-- settle
UPDATE webhook_deliveries SET
    status = :status, response = :response, error = :error, due = coalesce(:due, due), waiting = :waiting,
    completed = :completed, holder = NULL, lease = NULL
WHERE id = :id AND holder = :holder

-- release
UPDATE webhook_deliveries SET attempts = attempts - 1, holder = NULL, lease = NULL WHERE id = :id AND holder = :holder

-- next_due
SELECT
    (SELECT min(due) FROM webhook_deliveries WHERE waiting = 1 AND lease IS NULL),
    (SELECT min(lease) FROM webhook_deliveries WHERE lease IS NOT NULL)

-- forgotten
SELECT id FROM task_webhooks
WHERE NOT EXISTS (SELECT 1 FROM tasks WHERE tasks.id = task_webhooks.task)
AND NOT EXISTS (SELECT 1 FROM gateway_tasks WHERE gateway_tasks.task = task_webhooks.task)
AND NOT EXISTS (
    SELECT 1 FROM webhook_deliveries WHERE webhook_deliveries.webhook = task_webhooks.id AND waiting = 1
) LIMIT :size
