-- tasks
SELECT state, count(*) FROM tasks WHERE ended IS NULL GROUP BY state

-- queues
SELECT queue, count(*) FROM tasks WHERE ready = 1 GROUP BY queue

-- deliveries
SELECT status, count(*) FROM webhook_deliveries GROUP BY status
