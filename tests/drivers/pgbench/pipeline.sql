\set aid random(1, 100000)
\startpipeline
SELECT abalance FROM pgbench_accounts WHERE aid = :aid;
BEGIN;
UPDATE pgbench_accounts SET filler = :client_id WHERE aid = :aid;
SELECT filler FROM pgbench_accounts WHERE aid = :aid;
ROLLBACK;
SELECT count(*) FROM pgbench_tellers;
\endpipeline
