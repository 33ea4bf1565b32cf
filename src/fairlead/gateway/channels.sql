-- begin
INSERT INTO channels (
    id, agent, owner, title, metadata, model, generation, created, touched, closed, latest, pieces, forgotten
) VALUES (:id, :agent, :owner, :title, :metadata, NULL, 1, :now, :now, NULL, 0, 0, 0)

-- by_id
SELECT id, agent, owner, title, metadata, model, generation, created, touched, closed, latest, pieces, forgotten
FROM channels WHERE id = :id

-- listed
SELECT id, agent, owner, title, metadata, model, generation, created, touched, closed, latest, pieces, forgotten
FROM channels
WHERE owner = :owner AND agent = :agent AND touched >= :alive AND (created, id) < (:before, :before_id)
    AND ((closed IS NULL AND :open = 1) OR (closed IS NOT NULL AND :shut = 1))
ORDER BY created DESC, id DESC LIMIT :size

-- grow
UPDATE channels SET
    latest = latest + :size, pieces = pieces + :pieces,
    touched = CASE WHEN touched < :now THEN :now ELSE touched END
WHERE id = :id RETURNING latest, pieces, closed, generation

-- rename
UPDATE channels SET title = :title, touched = :now WHERE id = :id AND closed IS NULL

-- set_model
UPDATE channels SET model = :model, touched = :now WHERE id = :id AND closed IS NULL

-- close
UPDATE channels SET closed = :now, touched = :now WHERE id = :id AND closed IS NULL

-- clear
UPDATE channels SET generation = generation + 1, touched = :now, pieces = 0
WHERE id = :id AND closed IS NULL RETURNING generation

-- clear_log
DELETE FROM channel_log WHERE channel = :id

-- add
INSERT INTO channel_log (channel, number, id, passing, time, told)
VALUES (:channel, :number, :id, :passing, :time, :told)

-- move
UPDATE channel_log SET number = :number, told = :told WHERE channel = :channel AND id = :id AND passing = 0

-- message
SELECT number, told FROM channel_log WHERE channel = :channel AND id = :id AND passing = 0

-- log
SELECT number, told FROM channel_log WHERE channel = :channel AND number > :since ORDER BY number LIMIT :size

-- log_whole
SELECT number, told FROM channel_log WHERE channel = :channel AND number > :since AND passing = 0
ORDER BY number LIMIT :size

-- begin_turn
INSERT INTO channel_turns (channel, number, task, message, following, cursor, generation, open)
VALUES (:channel, :number, :task, :message, NULL, 0, :generation, 1)

-- open_turns
SELECT channel, number, task, message, following, cursor, generation FROM channel_turns
WHERE channel = :channel AND open = 1 ORDER BY number

-- turn
SELECT channel, number, task, message, following, cursor, generation FROM channel_turns
WHERE channel = :channel AND number = :number AND open = 1

-- lock
SELECT 1

-- lock (postgres)
SELECT 1 FROM channels WHERE id = :id FOR UPDATE

-- last_turn
SELECT channel, number, task, message, following, cursor, generation FROM channel_turns
WHERE channel = :channel ORDER BY number DESC LIMIT 1

-- set_turn
UPDATE channel_turns SET message = :message, following = :following, cursor = :cursor, open = :open
WHERE channel = :channel AND number = :number

-- answer_turn
UPDATE channel_turns SET following = :following WHERE channel = :channel AND number = :number AND open = 1

-- nth_piece
SELECT number FROM channel_log WHERE channel = :channel AND passing = 1 ORDER BY number DESC LIMIT 1 OFFSET :kept

-- forget_pieces
DELETE FROM channel_log WHERE channel = :channel AND passing = 1 AND number <= :upto

-- set_forgotten
UPDATE channels SET
    forgotten = CASE WHEN forgotten < :upto THEN :upto ELSE forgotten END,
    pieces = (SELECT count(*) FROM channel_log WHERE channel = :id AND passing = 1)
WHERE id = :id

-- old_pieces
SELECT channel, max(number) FROM channel_log WHERE passing = 1 AND time < :before GROUP BY channel LIMIT 100

-- expired
SELECT id, closed FROM channels WHERE touched < :before AND NOT EXISTS (
    SELECT 1 FROM channel_turns t JOIN tasks k ON k.id = t.task
    WHERE t.channel = channels.id AND t.open = 1 AND k.state IN ('queued', 'running')
) ORDER BY touched LIMIT 50

-- forget
DELETE FROM channels WHERE id = :id AND touched < :before
    AND NOT EXISTS (SELECT 1 FROM channel_turns WHERE channel = :id AND open = 1)

-- forget_turns
DELETE FROM channel_turns WHERE channel = :id

-- forget_slot
DELETE FROM task_slots WHERE name = :name AND taken = 0

-- once
SELECT request, answer FROM gateway_once WHERE scope = :scope AND key = :key

-- keep_once
INSERT INTO gateway_once (scope, key, request, answer, created)
VALUES (:scope, :key, :request, :answer, :now) ON CONFLICT DO NOTHING

-- forget_once
DELETE FROM gateway_once WHERE created < :before

-- is_task
SELECT owner FROM gateway_tasks WHERE task = :id
