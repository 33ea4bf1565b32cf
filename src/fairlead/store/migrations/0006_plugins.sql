-- What plugins are configured with: each value sealed, for one plugin, one agent and one key.
CREATE TABLE plugin_config (
    plugin TEXT NOT NULL,
    agent TEXT NOT NULL,
    key TEXT NOT NULL,
    sealed TEXT NOT NULL,
    updated DOUBLE PRECISION NOT NULL,
    PRIMARY KEY (plugin, agent, key)
);
CREATE INDEX plugin_config_agent ON plugin_config (agent);

-- The keys of plugins' own databases, sealed.
CREATE TABLE plugin_keys (
    plugin TEXT PRIMARY KEY,
    sealed TEXT NOT NULL,
    created DOUBLE PRECISION NOT NULL
);

-- Insights: what plugins log, and what they ask of the host. Ids grow with time.
CREATE TABLE insights (
    id TEXT PRIMARY KEY,
    at DOUBLE PRECISION NOT NULL,
    plugin TEXT NOT NULL,
    agent TEXT,
    -- 0 trace to 4 error; -1 for another number.
    level INTEGER NOT NULL,
    -- `LOG` for a line of the plugin's own, else the method of the call.
    method TEXT NOT NULL,
    -- The plugin's words, or the call's path.
    message TEXT NOT NULL,
    status INTEGER NOT NULL,
    -- What was given besides the words, as it came.
    body TEXT,
    -- What is searched, in lower case: words, body, and a line `key=value` for each of the body's fields.
    search TEXT NOT NULL,
    took_ms DOUBLE PRECISION
);
CREATE INDEX insights_plugin ON insights (plugin, id);

-- (back)
DROP TABLE insights;
DROP TABLE plugin_keys;
DROP TABLE plugin_config;
