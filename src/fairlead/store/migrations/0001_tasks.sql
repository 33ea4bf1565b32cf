-- Tasks: an invocation made durable. A row is the record and the referee: whoever moves a task does it here.
CREATE TABLE tasks (
    id TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    action TEXT NOT NULL,
    input TEXT NOT NULL,
    state TEXT NOT NULL,
    -- When it may be taken, while it waits for that; and whether it may be taken now (1), waits for a slot of its
    -- key (2), or neither (0).
    due DOUBLE PRECISION,
    ready INTEGER NOT NULL,
    priority INTEGER NOT NULL,
    -- Who has taken it, and until when without another word. `run` counts the takes: it fences late writers.
    worker TEXT,
    lease DOUBLE PRECISION,
    run INTEGER NOT NULL,
    attempt INTEGER NOT NULL,
    max_attempts INTEGER NOT NULL,
    retry TEXT NOT NULL,
    deadline DOUBLE PRECISION,
    created DOUBLE PRECISION NOT NULL,
    started DOUBLE PRECISION,
    ended DOUBLE PRECISION,
    -- Whom it is for: the caller as text, and the identity its permissions are checked by.
    caller TEXT NOT NULL,
    identity TEXT NOT NULL,
    title TEXT,
    metadata TEXT NOT NULL,
    key TEXT,
    request TEXT,
    parent TEXT,
    slot TEXT,
    question TEXT,
    answers TEXT NOT NULL,
    checkpoint TEXT,
    result TEXT,
    reason TEXT,
    -- The offset of the newest event, and the oldest that is still kept whole.
    latest BIGINT NOT NULL,
    oldest BIGINT NOT NULL,
    -- The last batch of events that was written: it is not written twice.
    batch TEXT
);
CREATE INDEX tasks_ready ON tasks (queue, priority DESC, due, id) WHERE ready = 1;
CREATE INDEX tasks_parked ON tasks (slot, priority DESC, due, id) WHERE ready = 2;
CREATE INDEX tasks_later ON tasks (queue, due) WHERE ready = 0 AND due IS NOT NULL;
CREATE INDEX tasks_lease ON tasks (lease) WHERE lease IS NOT NULL;
CREATE INDEX tasks_deadline ON tasks (deadline) WHERE deadline IS NOT NULL AND ended IS NULL;
CREATE INDEX tasks_ended ON tasks (ended) WHERE ended IS NOT NULL;
CREATE INDEX tasks_listed ON tasks (queue, created, id);
CREATE INDEX tasks_open ON tasks (queue, created, id) WHERE ended IS NULL;
-- Most tasks are in the other states: who looks for one of these must not look through them all.
CREATE INDEX tasks_rare ON tasks (queue, state, created, id) WHERE state NOT IN ('queued', 'running', 'completed');
CREATE INDEX tasks_caller ON tasks (caller, created, id);
CREATE INDEX tasks_parent ON tasks (parent) WHERE parent IS NOT NULL;
CREATE UNIQUE INDEX tasks_key ON tasks (queue, action, caller, key) WHERE key IS NOT NULL;

-- Who runs tasks, as far as they have said so lately.
CREATE TABLE task_workers (
    id TEXT PRIMARY KEY,
    queue TEXT NOT NULL,
    seen DOUBLE PRECISION NOT NULL,
    busy INTEGER NOT NULL,
    room INTEGER NOT NULL
);

-- How many tasks of one key run now, or are about to, and how many may.
CREATE TABLE task_slots (
    name TEXT PRIMARY KEY,
    taken INTEGER NOT NULL,
    size INTEGER NOT NULL
);

CREATE TABLE task_events (
    task TEXT NOT NULL,
    number BIGINT NOT NULL,
    type TEXT NOT NULL,
    time DOUBLE PRECISION NOT NULL,
    data TEXT NOT NULL,
    -- Deltas: 1, and pruned early.
    passing INTEGER NOT NULL,
    PRIMARY KEY (task, number)
);
CREATE INDEX task_events_passing ON task_events (time) WHERE passing = 1;

-- (back)
DROP TABLE task_events;
DROP TABLE task_slots;
DROP TABLE task_workers;
DROP TABLE tasks;
