-- Simple statements, several in one message, errors, transactions, notices.
\set t psql_statements_:client
\set VERBOSITY terse
DROP TABLE IF EXISTS :t;
CREATE TABLE :t (id int PRIMARY KEY, name text NOT NULL, at timestamptz);
INSERT INTO :t SELECT n, 'name ' || n, '2024-02-29 12:00+00' FROM generate_series(1, 50) n;
SELECT 1 AS one\; SELECT 2 AS two\; SELECT count(*) FROM :t;
SELECT 1\; SELECT 1/0\; SELECT 3;
SELECT nothing FROM :t;
INSERT INTO :t VALUES (1, 'again');
BEGIN;
UPDATE :t SET name = 'changed' WHERE id = 1 RETURNING *;
SAVEPOINT here;
INSERT INTO :t VALUES (1, 'again');
SELECT 'refused: the transaction has failed';
ROLLBACK TO here;
SELECT name FROM :t WHERE id = 1;
ROLLBACK;
SELECT name FROM :t WHERE id = 1;
BEGIN;
DELETE FROM :t WHERE id > 10;
SELECT 1/0;
COMMIT;
SELECT count(*) FROM :t;
BEGIN;
SET LOCAL statement_timeout = '20ms';
SELECT pg_sleep(10);
ROLLBACK;
SHOW statement_timeout;
\set ON_ERROR_ROLLBACK on
BEGIN;
INSERT INTO :t VALUES (51, 'first');
INSERT INTO :t VALUES (51, 'twice');
INSERT INTO :t VALUES (52, 'second');
COMMIT;
\set ON_ERROR_ROLLBACK off
SELECT * FROM :t WHERE id > 49 ORDER BY id;
\set AUTOCOMMIT off
DELETE FROM :t;
ROLLBACK;
\set AUTOCOMMIT on
SELECT count(*) FROM :t;
DO $$ BEGIN RAISE NOTICE 'a notice'; RAISE WARNING 'a warning'; END $$;
DO $$ BEGIN RAISE EXCEPTION 'an exception' USING ERRCODE = 'P1234', HINT = 'a hint'; END $$;
\errverbose
SELECT;
;
SELECT repeat('long ', 200000) AS text \gset
SELECT length(:'text'), md5(:'text');
SELECT n, repeat(chr(64 + n), 5000) FROM generate_series(1, 20) n;
VACUUM :t;
DROP TABLE :t;
