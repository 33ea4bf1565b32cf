-- add
INSERT INTO gateway_audit (id, at, owner, key_id, endpoint, agent, target, status, request, address)
VALUES :rows ON CONFLICT (id) DO NOTHING

-- add (postgres)
INSERT INTO gateway_audit (id, at, owner, key_id, endpoint, agent, target, status, request, address)
SELECT value ->> 0, CAST(value ->> 1 AS double precision), value ->> 2, value ->> 3, value ->> 4, value ->> 5,
    value ->> 6, CAST(value ->> 7 AS integer), value ->> 8, value ->> 9
FROM json_array_elements(CAST(:rows AS json)) AS each (value)
ON CONFLICT (id) DO NOTHING

-- page
SELECT id, at, owner, key_id, endpoint, agent, target, status, request, address FROM gateway_audit
WHERE id >= :since AND id < :before ORDER BY id DESC LIMIT :most

-- page_of
SELECT id, at, owner, key_id, endpoint, agent, target, status, request, address FROM gateway_audit
WHERE owner = :owner AND id >= :since AND id < :before
    AND (:agents IS NULL OR agent IN (SELECT value FROM json_each(:agents)))
ORDER BY id DESC LIMIT :most

-- page_of (postgres)
SELECT id, at, owner, key_id, endpoint, agent, target, status, request, address FROM gateway_audit
WHERE owner = :owner AND id >= :since AND id < :before
    AND (CAST(:agents AS text) IS NULL
        OR agent = ANY (ARRAY(SELECT json_array_elements_text(CAST(:agents AS json)))))
ORDER BY id DESC LIMIT :most

-- prune
DELETE FROM gateway_audit WHERE id IN (SELECT id FROM gateway_audit WHERE id < :before ORDER BY id LIMIT :most)

-- oldest_kept
SELECT id FROM gateway_audit ORDER BY id DESC LIMIT 1 OFFSET :rows

-- use
INSERT INTO gateway_usage (minute, owner, key_id, endpoint, requests, limited)
VALUES (:minute, :owner, :key_id, :endpoint, :requests, :limited)
ON CONFLICT (minute, owner, key_id, endpoint) DO UPDATE SET
    requests = gateway_usage.requests + excluded.requests, limited = gateway_usage.limited + excluded.limited

-- usage
SELECT
    owner, key_id, endpoint, sum(CASE WHEN minute >= :lately THEN requests ELSE 0 END), sum(requests), sum(limited)
FROM gateway_usage WHERE minute >= :since GROUP BY owner, key_id, endpoint ORDER BY sum(requests) DESC LIMIT :most

-- usage_of
SELECT
    owner, key_id, endpoint, sum(CASE WHEN minute >= :lately THEN requests ELSE 0 END), sum(requests), sum(limited)
FROM gateway_usage WHERE minute >= :since AND owner = :owner
GROUP BY owner, key_id, endpoint ORDER BY sum(requests) DESC LIMIT :most

-- prune_usage
DELETE FROM gateway_usage WHERE minute < :before
