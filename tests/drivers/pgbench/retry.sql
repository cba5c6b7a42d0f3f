-- Clients meet in few rows: the server refuses some of the updates, pgbench rolls back and tries again.
\set teller random(1, 3)
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT coalesce(filler::int, 0) AS count FROM pgbench_tellers WHERE tid = :teller \gset
UPDATE pgbench_tellers SET filler = :count + 1 WHERE tid = :teller;
END;
