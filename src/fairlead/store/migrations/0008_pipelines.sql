-- What the steps of durable pipelines gave, by the task that they are run for: a step that is here is not done again.
CREATE TABLE pipeline_steps (
    task TEXT NOT NULL,
    step TEXT NOT NULL,
    -- As JSON.
    result TEXT NOT NULL,
    PRIMARY KEY (task, step)
);

-- (back)
DROP TABLE pipeline_steps;
