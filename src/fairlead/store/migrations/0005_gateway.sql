-- Keys of programs that call agents. Only a hash of a key is kept, and its first characters, to be shown.
CREATE TABLE api_keys (
    id TEXT PRIMARY KEY,
    hash TEXT NOT NULL UNIQUE,
    prefix TEXT NOT NULL,
    name TEXT NOT NULL,
    owner TEXT NOT NULL,
    -- Requests in a minute; NULL for as many as everybody.
    per_minute INTEGER,
    -- Agents that it is for, as a JSON list; NULL for all of its owner's.
    agents TEXT,
    permissions TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    expires DOUBLE PRECISION,
    revoked DOUBLE PRECISION,
    used DOUBLE PRECISION
);
CREATE INDEX api_keys_owner ON api_keys (owner, created);

-- What is said of agents beyond their definition; and agents that run elsewhere, which have their definition here.
CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    visibility TEXT NOT NULL,
    mcp_enabled INTEGER NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    -- NULL for an agent of the app itself.
    instance TEXT,
    -- Name, description and skills of an agent that runs elsewhere: JSON.
    about TEXT,
    -- `push`, `queue` or `busy_reject`.
    mode TEXT,
    -- Until when whoever runs it is taken to be there.
    lease DOUBLE PRECISION,
    epoch INTEGER NOT NULL
);
CREATE INDEX agents_owner ON agents (owner, id);

-- The tasks that callers of the gateway have, to be listed by whose and with whom they are.
CREATE TABLE gateway_tasks (
    task TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    owner TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    -- 0 once it is known to have ended: whoever finds out says so.
    open INTEGER NOT NULL,
    -- An invoke, whole, which no worker ever had: JSON. NULL for a task of the engine.
    record TEXT
);
CREATE INDEX gateway_tasks_owner ON gateway_tasks (owner, created, task);
CREATE INDEX gateway_tasks_agent ON gateway_tasks (owner, agent, created, task);
CREATE INDEX gateway_tasks_open ON gateway_tasks (owner, created, task) WHERE open = 1;

-- Webhooks: where each change of a task's status is told.
CREATE TABLE task_webhooks (
    id TEXT PRIMARY KEY,
    task TEXT NOT NULL,
    url TEXT NOT NULL,
    -- What callbacks look like: `openapi`, or another protocol's.
    renderer TEXT NOT NULL,
    -- Both sealed.
    token TEXT,
    secret TEXT,
    created DOUBLE PRECISION NOT NULL,
    -- What of the task's log has become deliveries: up to this offset. And the task's status and run number then.
    seen BIGINT NOT NULL,
    state TEXT NOT NULL,
    run INTEGER NOT NULL,
    -- 1 while the task may change.
    open INTEGER NOT NULL
);
CREATE UNIQUE INDEX task_webhooks_url ON task_webhooks (task, url, renderer);
CREATE INDEX task_webhooks_open ON task_webhooks (task) WHERE open = 1;

-- One change of a status for one webhook, until it has been taken or given up.
CREATE TABLE webhook_deliveries (
    id TEXT PRIMARY KEY,
    webhook TEXT NOT NULL,
    task TEXT NOT NULL,
    -- The change's offset in the task's log; NULL for what was asked to be delivered again.
    number BIGINT,
    renderer TEXT NOT NULL,
    -- Whom it goes to: one that is slow must not hold up the others.
    host TEXT NOT NULL,
    -- The body's text, the same for every attempt.
    payload TEXT NOT NULL,
    status TEXT NOT NULL,
    attempts INTEGER NOT NULL,
    response INTEGER NOT NULL,
    error TEXT,
    due DOUBLE PRECISION NOT NULL,
    -- 1 while another attempt is to come.
    waiting INTEGER NOT NULL,
    -- Who makes an attempt now, and until when without another word.
    holder TEXT,
    lease DOUBLE PRECISION,
    created DOUBLE PRECISION NOT NULL,
    attempted DOUBLE PRECISION,
    completed DOUBLE PRECISION
);
CREATE UNIQUE INDEX webhook_deliveries_change ON webhook_deliveries (webhook, number);
CREATE INDEX webhook_deliveries_listed ON webhook_deliveries (webhook, created);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (due) WHERE waiting = 1;
CREATE INDEX webhook_deliveries_lease ON webhook_deliveries (lease) WHERE lease IS NOT NULL;

-- Files that callers upload: who may, as what, and where the content is once it is there.
CREATE TABLE gateway_files (
    id TEXT PRIMARY KEY,
    owner TEXT NOT NULL,
    filename TEXT NOT NULL,
    content_type TEXT NOT NULL,
    -- What this file's addresses are signed with; of use for nothing else.
    secret TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    -- Since when somebody uploads the content: nobody else may meanwhile.
    claimed DOUBLE PRECISION,
    -- Its content; NULL until all of it is there.
    artifact TEXT,
    size BIGINT,
    sha256 TEXT
);
CREATE INDEX gateway_files_unused ON gateway_files (created) WHERE artifact IS NULL;

-- Who did what. Ids grow with time.
CREATE TABLE gateway_audit (
    id TEXT PRIMARY KEY,
    at DOUBLE PRECISION NOT NULL,
    owner TEXT NOT NULL,
    key_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    agent TEXT,
    target TEXT,
    status INTEGER NOT NULL,
    request TEXT NOT NULL,
    address TEXT
);
CREATE INDEX gateway_audit_owner ON gateway_audit (owner, id);

-- How often callers called what, by the minute, over all processes.
CREATE TABLE gateway_usage (
    minute BIGINT NOT NULL,
    owner TEXT NOT NULL,
    key_id TEXT NOT NULL,
    endpoint TEXT NOT NULL,
    requests BIGINT NOT NULL,
    -- Of those, how many were too many.
    limited BIGINT NOT NULL,
    PRIMARY KEY (minute, owner, key_id, endpoint)
);

-- Conversations of the gateway. What is said in one has a log of its own, whose offsets only grow.
CREATE TABLE channels (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    owner TEXT NOT NULL,
    title TEXT,
    metadata TEXT NOT NULL,
    -- The model for its turns; NULL for the agent's own.
    model TEXT,
    -- How often it was cleared, plus one.
    generation INTEGER NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    -- When something was last said or done in it.
    touched DOUBLE PRECISION NOT NULL,
    closed DOUBLE PRECISION,
    -- The newest offset; how many pieces there are; and the offset up to which pieces were forgotten.
    latest BIGINT NOT NULL,
    pieces BIGINT NOT NULL,
    forgotten BIGINT NOT NULL
);
CREATE INDEX channels_listed ON channels (owner, agent, created, id);
CREATE INDEX channels_touched ON channels (touched);

-- What was said, as callers read it. A message that grows moves to a new offset; a piece never changes.
CREATE TABLE channel_log (
    channel TEXT NOT NULL,
    number BIGINT NOT NULL,
    id TEXT NOT NULL,
    -- 1 for a piece, which is kept for a while only.
    passing INTEGER NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    told TEXT NOT NULL,
    PRIMARY KEY (channel, number)
);
CREATE UNIQUE INDEX channel_log_message ON channel_log (channel, id) WHERE passing = 0;
CREATE INDEX channel_log_whole ON channel_log (channel, number) WHERE passing = 0;
CREATE INDEX channel_log_passing ON channel_log (time) WHERE passing = 1;

-- A turn of a conversation is a task of the engine; how much of the task's log is in the channel's stands here.
CREATE TABLE channel_turns (
    channel TEXT NOT NULL,
    -- The offset of the message that began it.
    number BIGINT NOT NULL,
    task TEXT NOT NULL,
    -- The message that is being replied to, and the one that answers what was asked meanwhile.
    message TEXT NOT NULL,
    following TEXT,
    cursor BIGINT NOT NULL,
    generation INTEGER NOT NULL,
    -- 0 once its end is in the channel's log.
    open INTEGER NOT NULL,
    PRIMARY KEY (channel, number)
);
CREATE INDEX channel_turns_open ON channel_turns (channel, number) WHERE open = 1;

-- What was answered to a request with a key: the same again gets the same answer.
CREATE TABLE gateway_once (
    scope TEXT NOT NULL,
    key TEXT NOT NULL,
    request TEXT NOT NULL,
    answer TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (scope, key)
);
CREATE INDEX gateway_once_created ON gateway_once (created);

-- (back)
DROP TABLE gateway_once;
DROP TABLE channel_turns;
DROP TABLE channel_log;
DROP TABLE channels;
DROP TABLE gateway_usage;
DROP TABLE gateway_audit;
DROP TABLE gateway_files;
DROP TABLE webhook_deliveries;
DROP TABLE task_webhooks;
DROP TABLE gateway_tasks;
DROP TABLE agents;
DROP TABLE api_keys;
