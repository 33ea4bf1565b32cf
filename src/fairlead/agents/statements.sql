-- begin
INSERT INTO conversations (id, agent, owner, title, created, updated, messages, state)
VALUES (:id, :agent, :owner, :title, :now, :now, 0, '{}') ON CONFLICT DO NOTHING

-- restore
INSERT INTO conversations (id, agent, owner, title, created, updated, messages, state)
VALUES (:id, :agent, :owner, :title, :now, :now, :messages, :state) ON CONFLICT DO NOTHING

-- take
UPDATE conversations SET holder = :holder, until = :until
WHERE id = :id AND owner = :owner
    AND (holder IS NULL OR until < :now OR (:task <> '' AND holder LIKE :task || '/%' AND holder < :later))

-- renew
UPDATE conversations SET until = :until WHERE id = :id AND holder = :holder

-- release
UPDATE conversations SET holder = NULL, until = NULL WHERE id = :id AND holder = :holder

-- by_id
SELECT id, agent, owner, title, created, updated, messages, holder, until, state FROM conversations
WHERE id = :id AND owner = :owner

-- listed
SELECT id, agent, owner, title, created, updated, messages, holder, until, state FROM conversations
WHERE owner = :owner AND (:agent = '' OR agent = :agent) AND (updated < :before OR (updated = :before AND id < :after))
ORDER BY updated DESC, id DESC LIMIT :most

-- transcript
SELECT body FROM messages WHERE conversation = :id ORDER BY position

-- grow
UPDATE conversations SET
    messages = messages + 1, updated = :now, state = :state, title = coalesce(title, :title)
WHERE id = :id AND holder = :holder RETURNING messages

-- say
INSERT INTO messages (id, conversation, position, role, words, body, created)
VALUES (:number, :id, :position, :role, :words, :body, :now)

-- note
UPDATE conversations SET state = :state, updated = :now WHERE id = :id AND holder = :holder

-- remember
UPDATE conversations SET state = :state WHERE id = :id AND owner = :owner AND messages = :messages AND holder IS NULL

-- rename
UPDATE conversations SET title = :title, updated = :now WHERE id = :id AND owner = :owner

-- forget_words
DELETE FROM messages WHERE conversation = :id

-- forget
DELETE FROM conversations WHERE id = :id AND owner = :owner

-- clear
UPDATE conversations SET messages = 0, state = '{}', updated = :now WHERE id = :id AND owner = :owner

-- older
SELECT id, owner FROM conversations WHERE updated < :before AND (holder IS NULL OR until < :now) LIMIT 100

-- find
SELECT c.id, c.agent, c.title, m.position, m.role, m.words, m.created
FROM message_words w JOIN messages m ON m.id = w.rowid JOIN conversations c ON c.id = m.conversation
WHERE message_words MATCH :words AND c.owner = :owner AND (:agent = '' OR c.agent = :agent)
    AND c.id <> :but
ORDER BY bm25(message_words), m.created DESC LIMIT :most

-- find (postgres)
SELECT c.id, c.agent, c.title, m.position, m.role, m.words, m.created
FROM messages m JOIN conversations c ON c.id = m.conversation
WHERE to_tsvector('simple', m.words) @@ plainto_tsquery('simple', :words)
    AND c.owner = :owner AND (:agent = '' OR c.agent = :agent) AND c.id <> :but
ORDER BY ts_rank(to_tsvector('simple', m.words), plainto_tsquery('simple', :words)) DESC, m.created DESC LIMIT :most
