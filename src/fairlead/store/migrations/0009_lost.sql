-- How often the worker of a task was lost since it began or was last paused: failures that are tried again are no part of it.
ALTER TABLE tasks ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;

-- (back)
ALTER TABLE tasks DROP COLUMN lost;
