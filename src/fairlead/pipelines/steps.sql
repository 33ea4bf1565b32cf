-- steps
SELECT step, result FROM pipeline_steps WHERE task = :task

-- keep
INSERT INTO pipeline_steps (task, step, result) VALUES (:task, :step, :result) ON CONFLICT (task, step) DO NOTHING

-- forget_ended
DELETE FROM pipeline_steps WHERE task IN (
    SELECT DISTINCT pipeline_steps.task FROM pipeline_steps LEFT JOIN tasks ON tasks.id = pipeline_steps.task
    WHERE tasks.id IS NULL OR tasks.ended IS NOT NULL
)
