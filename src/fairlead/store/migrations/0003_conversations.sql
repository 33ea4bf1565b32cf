-- Conversations: who talks with which agent, and what is needed to go on.
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    owner TEXT NOT NULL,
    title TEXT,
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    -- How many messages there are: the next one's position.
    messages INTEGER NOT NULL,
    -- Who is writing in it, and until when that counts. Others wait.
    holder TEXT,
    until DOUBLE PRECISION,
    -- The list of things to do, an open question, loaded tools: JSON.
    state TEXT NOT NULL
);
CREATE INDEX conversations_owner ON conversations (owner, agent, updated);

-- (sqlite)
CREATE TABLE messages (
    -- Made by us. An alias of SQLite's own row number, which the index of words needs.
    id INTEGER PRIMARY KEY,
    conversation TEXT NOT NULL,
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    words TEXT NOT NULL,
    body TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    UNIQUE (conversation, position)
);
-- (postgres)
CREATE TABLE messages (
    id BIGINT PRIMARY KEY,
    conversation TEXT NOT NULL,
    position INTEGER NOT NULL,
    role TEXT NOT NULL,
    words TEXT NOT NULL,
    body TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    UNIQUE (conversation, position)
);

-- What people and agents said, by its words.
-- (sqlite)
CREATE VIRTUAL TABLE message_words USING fts5 (words, content = 'messages', content_rowid = 'id', tokenize = 'unicode61 remove_diacritics 2');
-- (sqlite)
CREATE TRIGGER messages_said AFTER INSERT ON messages BEGIN INSERT INTO message_words (rowid, words) VALUES (new.id, new.words); END;
-- (sqlite)
CREATE TRIGGER messages_gone AFTER DELETE ON messages BEGIN INSERT INTO message_words (message_words, rowid, words) VALUES ('delete', old.id, old.words); END;
-- (postgres)
CREATE INDEX message_words ON messages USING gin (to_tsvector('simple', words));

-- (back)
-- (sqlite)
DROP TABLE message_words;
DROP TABLE messages;
DROP TABLE conversations;
