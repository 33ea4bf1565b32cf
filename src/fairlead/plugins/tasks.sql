-- session
SELECT id, plugin, agent, key, title, tools, draft, created FROM plugin_sessions WHERE id = :id

-- latest_session
SELECT id, plugin, agent, key, title, tools, draft, created FROM plugin_sessions
WHERE plugin = :plugin AND agent = :agent AND key = :key ORDER BY created DESC, id DESC LIMIT 1

-- put_session
INSERT INTO plugin_sessions (id, plugin, agent, key, title, tools, draft, created)
VALUES (:id, :plugin, :agent, :key, :title, :tools, NULL, :created)
ON CONFLICT (id) DO UPDATE SET title = :title, tools = :tools, draft = NULL

-- set_draft
UPDATE plugin_sessions SET draft = :draft WHERE id = :id

-- put_run
INSERT INTO plugin_runs (task, session, plugin, agent, number, told, done, holder, until, stop, message, created)
VALUES (:task, :session, :plugin, :agent,
    (SELECT coalesce(max(number), 0) + 1 FROM plugin_runs WHERE session = :session),
    -1, 0, :holder, :until, 0, NULL, :created)

-- last_run
SELECT task, session, agent, told, holder, until, stop, message FROM plugin_runs
WHERE session = :session ORDER BY number DESC LIMIT 1

-- run
SELECT task, session, agent, told, holder, until, stop, message FROM plugin_runs WHERE task = :task

-- next_run
SELECT task, session, agent, told, holder, until, stop, message FROM plugin_runs
WHERE session = :session AND done = 0 ORDER BY number LIMIT 1

-- open_runs
SELECT r.task, r.session, r.agent, r.told, r.holder, r.until, r.stop, r.message FROM plugin_runs r
WHERE r.plugin = :plugin AND r.done = 0 ORDER BY r.created

-- active
SELECT r.session, r.agent, r.plugin FROM plugin_runs r JOIN tasks t ON t.id = r.task
WHERE r.done = 0 AND t.ended IS NULL ORDER BY r.created

-- take
UPDATE plugin_runs SET holder = :holder, until = :until
WHERE task = :task AND done = 0 AND (holder IS NULL OR holder = :holder OR until < :now) RETURNING told

-- renew
UPDATE plugin_runs SET until = :until WHERE task = :task AND holder = :holder

-- tell
UPDATE plugin_runs SET told = :told WHERE task = :task AND holder = :holder

-- finish
UPDATE plugin_runs SET done = 1, holder = NULL, until = NULL WHERE task = :task AND holder = :holder

-- release
UPDATE plugin_runs SET holder = NULL, until = NULL WHERE task = :task AND holder = :holder

-- stop
UPDATE plugin_runs SET stop = 1, message = :message WHERE task = :task

-- recent
SELECT number, type, time, data FROM task_events WHERE task = :task AND passing = 0 ORDER BY number DESC LIMIT :size

-- pieces
SELECT data FROM task_events WHERE task = :task AND passing = 1 AND number > :since ORDER BY number

-- last_piece
SELECT max(number) FROM task_events WHERE task = :task AND passing = 1

-- tools_before
SELECT number, data FROM task_events
WHERE task = :task AND passing = 0 AND type = 'activity' AND number < :number AND data LIKE '%tool_%'
ORDER BY number DESC LIMIT :size

-- shared
SELECT data FROM task_events
WHERE task = :task AND passing = 0 AND type = 'activity' AND data LIKE '%share_artifact%' ORDER BY number

-- forget_runs
DELETE FROM plugin_runs WHERE task IN (
    SELECT r.task FROM plugin_runs r LEFT JOIN tasks t ON t.id = r.task WHERE t.id IS NULL AND r.done = 1 LIMIT 20
)

-- forget_sessions
DELETE FROM plugin_sessions WHERE id IN (
    SELECT s.id FROM plugin_sessions s LEFT JOIN conversations c ON c.id = s.id
    LEFT JOIN plugin_runs r ON r.session = s.id WHERE c.id IS NULL AND r.task IS NULL LIMIT 20
)

-- drop_runs
DELETE FROM plugin_runs WHERE plugin = :plugin

-- drop_sessions
DELETE FROM plugin_sessions WHERE plugin = :plugin
