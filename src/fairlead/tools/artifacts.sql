-- put
INSERT INTO artifacts (id, owner, context, context_type, name, mime_type, size, sha256, directory, description, created)
VALUES (:id, :owner, :context, :context_type, :name, :mime_type, :size, :sha256, :directory, :description, :created)
ON CONFLICT (context, name) DO UPDATE SET
    context_type = excluded.context_type, mime_type = excluded.mime_type, size = excluded.size,
    sha256 = excluded.sha256, directory = excluded.directory, description = excluded.description,
    created = excluded.created
WHERE artifacts.owner = excluded.owner
RETURNING id, owner, context, context_type, name, mime_type, size, sha256, directory, description, created

-- stranger
SELECT 1 FROM artifacts WHERE context = :context AND owner <> :owner LIMIT 1

-- drop
DELETE FROM artifacts WHERE context = :context AND owner = :owner

-- by_id
SELECT id, owner, context, context_type, name, mime_type, size, sha256, directory, description, created
FROM artifacts WHERE id = :id AND owner = :owner

-- by_context
SELECT id, owner, context, context_type, name, mime_type, size, sha256, directory, description, created
FROM artifacts WHERE owner = :owner AND context = :context
ORDER BY created DESC, id DESC LIMIT :most

-- by_owner
SELECT id, owner, context, context_type, name, mime_type, size, sha256, directory, description, created
FROM artifacts WHERE owner = :owner
ORDER BY created DESC, id DESC LIMIT :most
