CREATE INDEX CONCURRENTLY runs_version ON runs (version);
