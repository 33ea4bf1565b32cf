-- submit
INSERT INTO tasks (
    id, queue, action, input, state, due, ready, priority, run, attempt, max_attempts, retry, deadline, created,
    caller, identity, title, metadata, key, request, parent, slot, answers, latest, oldest
) VALUES (
    :id, :queue, :action, :input, 'queued', :due, :ready, :priority, 0, 0, :max_attempts, :retry, :deadline, :created,
    :caller, :identity, :title, :metadata, :key, :request, :parent, :slot, '[]', 0, 0
) ON CONFLICT DO NOTHING

-- submit_many
INSERT INTO tasks (
    id, queue, action, input, state, due, ready, priority, run, attempt, max_attempts, retry, deadline, created,
    caller, identity, title, metadata, key, request, parent, slot, answers, latest, oldest
) VALUES (
    :id, :queue, :action, :input, 'queued', :due, :ready, :priority, 0, 0, :max_attempts, :retry, :deadline, :created,
    :caller, :identity, :title, :metadata, :key, :request, :parent, :slot, '[]', 0, 0
)

-- submit_many (postgres)
INSERT INTO tasks (
    id, queue, action, input, state, due, ready, priority, run, attempt, max_attempts, retry, deadline, created,
    caller, identity, title, metadata, key, request, parent, slot, answers, latest, oldest
) SELECT
    given.id, :queue, :action, given.input, 'queued', :due, :ready, :priority, 0, 0, :max_attempts, :retry, :deadline,
    :created, :caller, :identity, :title, :metadata, :key, :request, :parent, :slot, '[]', 0, 0
FROM unnest(:id::text[], :input::text[]) AS given (id, input)

-- submit_packed (postgres)
INSERT INTO tasks (
    id, queue, action, input, state, due, ready, priority, run, attempt, max_attempts, retry, deadline, created,
    caller, identity, title, metadata, key, request, parent, slot, answers, latest, oldest
) SELECT
    given.id, given.queue, given.action, given.input, 'queued', given.due, given.ready, given.priority, 0, 0,
    given.max_attempts, given.retry, given.deadline, given.created, given.caller, given.identity,
    given.title, given.metadata, given.key, given.request, given.parent, given.slot, '[]', 0, 0
FROM json_to_recordset(CAST(:rows AS json)) AS given (
    id text, queue text, action text, input text, due double precision, ready integer, priority integer,
    max_attempts integer, retry text, deadline double precision, created double precision, caller text, identity text,
    title text, metadata text, key text, request text, parent text, slot text
) ON CONFLICT DO NOTHING

-- lock_batch
SELECT 1

-- lock_batch (postgres)
SELECT 1 FROM pg_advisory_xact_lock(hashtextextended(:first, 0))

-- clock
SELECT NULL

-- clock (postgres)
SELECT extract(epoch FROM clock_timestamp())::double precision

-- by_id
SELECT * FROM tasks WHERE id = :id

-- by_id_locked
SELECT * FROM tasks WHERE id = :id

-- by_id_locked (postgres)
SELECT * FROM tasks WHERE id = :id FOR UPDATE

-- by_key
SELECT * FROM tasks WHERE queue = :queue AND action = :action AND caller = :caller AND key = :key

-- take
UPDATE tasks SET
    state = 'running', ready = 0, due = NULL, worker = :worker, lease = :lease, run = run + 1, attempt = attempt + 1,
    started = coalesce(started, CASE WHEN :now > created THEN :now ELSE created END), latest = latest + 1
WHERE id IN (
    SELECT id FROM tasks WHERE queue = :queue AND ready = 1 ORDER BY priority DESC, due, id LIMIT :size
) RETURNING *

-- take (postgres)
WITH chosen AS MATERIALIZED (
    SELECT id FROM tasks WHERE queue = :queue AND ready = 1 ORDER BY priority DESC, due, id LIMIT :size
    FOR UPDATE SKIP LOCKED
)
UPDATE tasks SET
    state = 'running', ready = 0, due = NULL, worker = :worker, lease = :lease, run = run + 1, attempt = attempt + 1,
    started = coalesce(started, CASE WHEN :now > created THEN :now ELSE created END), latest = latest + 1
FROM chosen WHERE tasks.id = chosen.id RETURNING tasks.*

-- take_now (postgres)
WITH chosen AS MATERIALIZED (
    SELECT id FROM tasks WHERE queue = :queue AND ready = 1 ORDER BY priority DESC, due, id LIMIT :size
    FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE tasks SET
        state = 'running', ready = 0, due = NULL, worker = :worker, lease = :lease, run = run + 1,
        attempt = attempt + 1, started = coalesce(started, CASE WHEN :now > created THEN :now ELSE created END),
        latest = latest + 1
    FROM chosen WHERE tasks.id = chosen.id RETURNING tasks.*
), told AS (
    INSERT INTO task_events (task, number, type, time, data, passing)
    SELECT id, latest, 'started', :now, concat('{"attempt":', attempt, ',"worker":', :spelled::text, '}'), 0 FROM taken
)
-- The soonest, and not whether there is one until now: how many these are cannot be guessed without the value, and
-- so the statement would be planned anew each time, which takes longer than doing it.
SELECT later.due, taken.* FROM (
    SELECT (
        SELECT due <= :now FROM tasks WHERE queue = :queue AND ready = 0 AND due IS NOT NULL ORDER BY due LIMIT 1
    ) AS due
) AS later LEFT JOIN taken ON TRUE

-- take_one
UPDATE tasks SET
    state = 'running', ready = 0, due = NULL, worker = :worker, lease = :lease, run = run + 1, attempt = attempt + 1,
    started = coalesce(started, CASE WHEN :now > created THEN :now ELSE created END), latest = latest + 1
WHERE id = :id AND ready = 1 RETURNING *

-- due_now
SELECT id, slot FROM tasks WHERE queue = :queue AND ready = 0 AND due IS NOT NULL AND due <= :now ORDER BY due LIMIT 100

-- due_now (postgres)
SELECT id, slot FROM tasks WHERE queue = :queue AND ready = 0 AND due IS NOT NULL AND due <= :now ORDER BY due LIMIT 100
FOR UPDATE SKIP LOCKED

-- set_ready
UPDATE tasks SET ready = :ready WHERE id = :id AND ready <> 1 AND due IS NOT NULL

-- soonest
SELECT
    (SELECT min(due) FROM tasks WHERE queue = :queue AND ready = 0 AND due IS NOT NULL),
    (SELECT min(lease) FROM tasks WHERE lease IS NOT NULL),
    (SELECT min(deadline) FROM tasks WHERE deadline IS NOT NULL AND ended IS NULL),
    -- In the order of its index: else SQLite would look through all that has ended.
    (SELECT count(*) FROM (
        SELECT 1 FROM tasks WHERE queue = :queue AND ready = 1 ORDER BY priority DESC, due, id LIMIT 1
    ) AS waiting)

-- need_slot
INSERT INTO task_slots (name, taken, size) VALUES (:name, 0, :size) ON CONFLICT (name) DO UPDATE SET size = :size

-- lock_slot
SELECT 1

-- lock_slot (postgres)
SELECT 1 FROM task_slots WHERE name = :name FOR UPDATE

-- take_slot
UPDATE task_slots SET taken = taken + 1 WHERE name = :name AND taken < size

-- free_slot
UPDATE task_slots SET taken = taken - 1 WHERE name = :name AND taken > 0

-- next_parked
SELECT id, queue FROM tasks WHERE slot = :name AND ready = 2 ORDER BY priority DESC, due, id LIMIT 1

-- next_parked (postgres)
SELECT id, queue FROM tasks WHERE slot = :name AND ready = 2 ORDER BY priority DESC, due, id LIMIT 1 FOR UPDATE

-- renew
UPDATE tasks SET lease = :lease WHERE id = :id AND run = :run AND worker = :worker

-- held
SELECT id, run FROM tasks WHERE worker = :worker AND lease IS NOT NULL

-- grow
UPDATE tasks SET latest = latest + :size, batch = :batch
WHERE id = :id AND run = :run AND worker = :worker AND (batch IS NULL OR batch <> :batch) RETURNING latest

-- wrote
SELECT 1 FROM tasks WHERE id = :id AND batch = :batch

-- say
UPDATE tasks SET latest = latest + 1 WHERE id = :id AND ended IS NULL RETURNING latest

-- add_event
INSERT INTO task_events (task, number, type, time, data, passing) VALUES (:task, :number, :type, :time, :data, :passing)

-- checkpoint
UPDATE tasks SET checkpoint = :state WHERE id = :id AND run = :run AND worker = :worker

-- finish
UPDATE tasks SET
    state = :state, worker = NULL, lease = NULL, ended = :now, result = :result, reason = :reason, latest = latest + :size
WHERE id = :id AND run = :run AND worker = :worker RETURNING latest, slot, queue

-- finished
SELECT latest FROM tasks WHERE id = :id AND run = :run AND state = :state AND ended IS NOT NULL

-- pause
UPDATE tasks SET
    state = :state, worker = NULL, lease = NULL, question = :question, attempt = 0, lost = 0, latest = latest + :size
WHERE id = :id AND run = :run AND worker = :worker RETURNING latest, slot, queue

-- paused
SELECT 1 FROM tasks WHERE id = :id AND run = :run AND state IN ('input_required', 'auth_required')

-- resume
UPDATE tasks SET state = 'running', question = NULL, answers = :answers, due = :now, latest = latest + 1
WHERE id = :id AND state IN ('input_required', 'auth_required') RETURNING latest

-- again
UPDATE tasks SET worker = NULL, lease = NULL, due = :due, latest = latest + :size
WHERE id = :id AND run = :run AND worker = :worker RETURNING latest, slot, queue

-- leave
UPDATE tasks SET worker = NULL, lease = NULL, due = :due, attempt = attempt - 1, latest = latest + :size
WHERE id = :id AND run = :run AND worker = :worker RETURNING latest, slot, queue

-- again_lost
UPDATE tasks SET
    worker = NULL, lease = NULL, due = CASE WHEN slot IS NULL THEN :due ELSE created END,
    ready = CASE WHEN slot IS NULL THEN ready ELSE 2 END, lost = lost + 1, latest = latest + :size
WHERE id = :id AND run = :run AND worker = :worker RETURNING latest, slot, queue

-- hand_back
UPDATE tasks SET
    worker = NULL, lease = NULL, due = CASE WHEN slot IS NULL THEN :now ELSE created END,
    ready = CASE WHEN slot IS NULL THEN ready ELSE 2 END, attempt = attempt - 1
WHERE id = :id AND run = :run AND worker = :worker RETURNING slot, queue

-- cut
UPDATE tasks SET
    state = :state, ended = :now, reason = :reason, worker = NULL, lease = NULL, due = NULL, ready = 0,
    question = NULL, latest = latest + 1
WHERE id = :id AND ended IS NULL RETURNING latest

-- children
SELECT id FROM tasks WHERE parent = :id AND ended IS NULL

-- lost
SELECT * FROM tasks WHERE lease IS NOT NULL AND lease < :now ORDER BY lease LIMIT 100

-- lost (postgres)
SELECT * FROM tasks WHERE lease IS NOT NULL AND lease < :now ORDER BY lease LIMIT 100 FOR UPDATE SKIP LOCKED

-- overdue
SELECT * FROM tasks WHERE deadline IS NOT NULL AND ended IS NULL AND deadline <= :now
AND (worker IS NULL OR deadline <= :late) ORDER BY deadline LIMIT 100

-- overdue (postgres)
SELECT * FROM tasks WHERE deadline IS NOT NULL AND ended IS NULL AND deadline <= :now
AND (worker IS NULL OR deadline <= :late) ORDER BY deadline LIMIT 100 FOR UPDATE SKIP LOCKED

-- events
SELECT number, type, time, data, passing FROM task_events WHERE task = :id AND number > :since ORDER BY number LIMIT :size

-- answers
SELECT number, type, time, data FROM task_events WHERE task = :id AND type = 'input' ORDER BY number

-- listed
SELECT * FROM tasks WHERE queue = :queue AND (created, id) < (:before, :before_id)
ORDER BY created DESC, id DESC LIMIT :size

-- listed_open
SELECT * FROM tasks WHERE queue = :queue AND ended IS NULL AND (created, id) < (:before, :before_id)
ORDER BY created DESC, id DESC LIMIT :size

-- listed_rare
SELECT * FROM tasks WHERE queue = :queue AND state = :state AND state NOT IN ('queued', 'running', 'completed')
AND (created, id) < (:before, :before_id) ORDER BY created DESC, id DESC LIMIT :size

-- listed_caller
SELECT * FROM tasks WHERE caller = :caller AND queue = :queue AND (created, id) < (:before, :before_id)
ORDER BY created DESC, id DESC LIMIT :size

-- listed_children
SELECT * FROM tasks WHERE parent = :parent AND (created, id) < (:before, :before_id)
ORDER BY created DESC, id DESC LIMIT :size

-- counts_open
SELECT state, count(*) FROM tasks
WHERE queue = :queue AND ended IS NULL AND state IN ('queued', 'running') GROUP BY state

-- counts_rare
SELECT state, count(*) FROM tasks
WHERE queue = :queue AND state NOT IN ('queued', 'running', 'completed') GROUP BY state

-- count_all
SELECT count(*) FROM tasks WHERE queue = :queue

-- old_tasks
SELECT id FROM tasks WHERE ended IS NOT NULL AND ended < :before ORDER BY ended LIMIT :size

-- old_tasks (postgres)
SELECT id FROM tasks WHERE ended IS NOT NULL AND ended < :before ORDER BY ended LIMIT :size FOR UPDATE SKIP LOCKED

-- drop_events
DELETE FROM task_events WHERE task = :id

-- drop_task
DELETE FROM tasks WHERE id = :id AND ended IS NOT NULL

-- old_passing
SELECT task, max(number) FROM (
    SELECT task, number FROM task_events WHERE passing = 1 AND time < :before ORDER BY time LIMIT :size
) AS old GROUP BY task

-- old_passing (postgres)
SELECT task, max(number) FROM (
    SELECT task, number FROM task_events WHERE passing = 1 AND time < :before ORDER BY time LIMIT :size
    FOR UPDATE SKIP LOCKED
) AS old GROUP BY task

-- many_passing
SELECT number FROM task_events WHERE task = :id AND passing = 1 ORDER BY number DESC LIMIT 1 OFFSET :kept

-- drop_passing
DELETE FROM task_events WHERE task = :id AND passing = 1 AND number <= :upto

-- set_oldest
UPDATE tasks SET oldest = :upto WHERE id = :id AND oldest < :upto

-- slot_size
SELECT size FROM task_slots WHERE name = :name

-- by_prefix
SELECT * FROM tasks WHERE id >= :first AND id <= :last AND queue = :queue AND caller = coalesce(:caller, caller)
ORDER BY id LIMIT :size

-- by_prefix (sqlite)
SELECT * FROM tasks WHERE id >= :first AND id <= :last AND +queue = :queue AND caller = coalesce(:caller, caller)
ORDER BY id LIMIT :size

-- ready_since
SELECT count(*) FROM (
    SELECT 1 FROM tasks WHERE queue = :queue AND ready = 1 AND due < :before LIMIT :most
) AS waiting

-- present
INSERT INTO task_workers (id, queue, seen, busy, room) VALUES (:id, :queue, :seen, :busy, :room)
ON CONFLICT (id) DO UPDATE SET seen = :seen, busy = :busy

-- absent
DELETE FROM task_workers WHERE id = :id OR seen < :before

-- workers
SELECT id, queue, seen, busy, room FROM task_workers WHERE queue = :queue AND seen >= :since ORDER BY id

-- seen
SELECT seen FROM task_workers WHERE id = :id AND seen >= :since

-- complete (postgres)
WITH moved AS (
    UPDATE tasks SET
        state = 'completed', worker = NULL, lease = NULL, ended = :now, result = :result, latest = latest + 1
    WHERE id = :id AND run = :run AND worker = :worker RETURNING id, latest
)
INSERT INTO task_events (task, number, type, time, data, passing)
SELECT id, latest, 'terminal', :now, :data, 0 FROM moved RETURNING number
