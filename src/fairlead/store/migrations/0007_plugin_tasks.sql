-- Chats that plugins have begun: a task's id is its chat's, and the conversation's.
CREATE TABLE plugin_sessions (
    id TEXT PRIMARY KEY,
    plugin TEXT NOT NULL,
    agent TEXT NOT NULL,
    -- What the plugin calls it, to go on with it later.
    key TEXT,
    title TEXT NOT NULL,
    -- Tools that were pinned to it, as JSON.
    tools TEXT NOT NULL,
    draft TEXT,
    created DOUBLE PRECISION NOT NULL
);
CREATE INDEX plugin_sessions_key ON plugin_sessions (plugin, agent, key, created);

-- The runs of these chats, each a task of the engine, and how far the plugin was told of it.
CREATE TABLE plugin_runs (
    task TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    plugin TEXT NOT NULL,
    agent TEXT NOT NULL,
    number INTEGER NOT NULL,
    -- The offset in the task's log up to which the plugin knows; -1 before the first word.
    told BIGINT NOT NULL,
    -- 1 when the plugin knows how it ended.
    done INTEGER NOT NULL,
    -- Who tells the plugin, and until when that counts.
    holder TEXT,
    until DOUBLE PRECISION,
    -- 1 when the plugin wants it to stop, and what it said to that.
    stop INTEGER NOT NULL,
    message TEXT,
    created DOUBLE PRECISION NOT NULL,
    UNIQUE (session, number)
);
CREATE INDEX plugin_runs_open ON plugin_runs (plugin, created) WHERE done = 0;

-- (back)
DROP TABLE plugin_runs;
DROP TABLE plugin_sessions;
