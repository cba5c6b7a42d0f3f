CREATE TABLE runs (version int, at timestamptz DEFAULT clock_timestamp());
-- Long enough that all who want to migrate are there.
SELECT pg_sleep(0.5);
INSERT INTO runs VALUES (1);
