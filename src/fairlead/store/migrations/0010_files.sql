-- How much an owner's files are, and which are the oldest.
CREATE INDEX gateway_files_owner ON gateway_files (owner, size);
CREATE INDEX gateway_files_kept ON gateway_files (created) WHERE artifact IS NOT NULL;

-- (back)
DROP INDEX gateway_files_kept;
DROP INDEX gateway_files_owner;
