-- Artifacts: what calls made and shared. The content is a file or a folder of the artifacts' folder; this is about it.
CREATE TABLE artifacts (
    id TEXT PRIMARY KEY,
    -- Whom it belongs to, and the conversation or call it was made in. A context belongs to one owner.
    owner TEXT NOT NULL,
    context TEXT NOT NULL,
    context_type TEXT NOT NULL,
    name TEXT NOT NULL,
    mime_type TEXT NOT NULL,
    size BIGINT NOT NULL,
    sha256 TEXT NOT NULL,
    directory INTEGER NOT NULL,
    description TEXT,
    created DOUBLE PRECISION NOT NULL
);
CREATE UNIQUE INDEX artifacts_name ON artifacts (context, name);
CREATE INDEX artifacts_owner ON artifacts (owner, created, id);

-- (back)
DROP TABLE artifacts;
