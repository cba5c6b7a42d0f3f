-- Every SQL command that a session remembers. Between any two statements other clients use the server connections.
\set VERBOSITY terse
\set t psql_session_:client
CREATE TABLE :t (id serial PRIMARY KEY, n int UNIQUE DEFERRABLE, text text);

-- SET, RESET, SHOW
SET work_mem = '1111kB';
SET search_path TO pg_catalog, public;
SET SESSION statement_timeout TO 60000;
SET LOCAL work_mem = '2MB';
SHOW work_mem;
SHOW search_path;
SELECT current_setting('statement_timeout'), set_config('lock_timeout', '7s', false), set_config('my.own', 'of the client', false);
SHOW lock_timeout;
SHOW my.own;
BEGIN;
SET LOCAL work_mem = '3333kB';
SAVEPOINT one;
SET work_mem = '4444kB';
SET my.own = 'inside';
ROLLBACK TO one;
SHOW work_mem;
SHOW my.own;
SET search_path = '';
COMMIT;
SHOW work_mem;
SHOW search_path;
BEGIN;
SET work_mem = '5555kB';
RESET search_path;
ROLLBACK;
SHOW work_mem;
SHOW search_path;
SET work_mem = 'much';
SET no_such_parameter = 1;
SELECT name, setting FROM pg_settings WHERE source = 'session' AND name IN ('work_mem', 'lock_timeout', 'statement_timeout', 'search_path') ORDER BY name;
UPDATE pg_settings SET setting = '6666' WHERE name = 'work_mem';
SHOW work_mem;
DO $$ BEGIN PERFORM set_config('work_mem', '7777kB', false); END $$;
SHOW work_mem;
RESET work_mem;
SHOW work_mem;
SET SCHEMA 'information_schema';
SHOW search_path;
SET search_path TO DEFAULT;
SHOW search_path;
SET NAMES 'LATIN1';
SHOW client_encoding;
RESET client_encoding;
SET TIME ZONE INTERVAL '+03:30' HOUR TO MINUTE;
SHOW TimeZone;
SET TIME ZONE LOCAL;
SHOW TimeZone;
RESET ALL;
SHOW lock_timeout;
SELECT current_setting('my.own', true) = '' AS is_empty;

-- Roles
SET ROLE weir_no_such_role;
SET ROLE weir_scram;
SELECT current_user, session_user, current_setting('role');
SET SESSION AUTHORIZATION weir_trust;
SET SESSION AUTHORIZATION weir_scram;
SELECT current_user, session_user;
BEGIN;
SET LOCAL ROLE NONE;
SELECT current_setting('role');
COMMIT;
SELECT current_setting('role');
RESET ROLE;
SELECT current_setting('role');
RESET SESSION AUTHORIZATION;

-- What transactions are like
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY, DEFERRABLE;
SHOW transaction_isolation;
SHOW default_transaction_read_only;
INSERT INTO :t (n) VALUES (0);
BEGIN ISOLATION LEVEL REPEATABLE READ, READ WRITE;
SHOW transaction_isolation;
SHOW transaction_read_only;
SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
SHOW transaction_isolation;
COMMIT AND CHAIN;
SHOW transaction_isolation;
ROLLBACK;
SHOW transaction_isolation;
SET TRANSACTION READ WRITE;
SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE, NOT DEFERRABLE;
SHOW transaction_isolation;
SHOW transaction_deferrable;
START TRANSACTION READ ONLY;
INSERT INTO :t (n) VALUES (0);
COMMIT;

-- PREPARE, EXECUTE, DEALLOCATE
PREPARE one (int) AS SELECT $1 + 1 AS sum;
PREPARE "Two" AS INSERT INTO :t (n, text) VALUES ($1, $2) RETURNING n, text;
PREPARE one AS SELECT 2;
EXECUTE one (1);
EXECUTE "Two" (1, 'executed');
EXECUTE one;
EXPLAIN (COSTS off) EXECUTE one (1);
CREATE TEMP TABLE of_execute AS EXECUTE one (5);
SELECT * FROM of_execute;
DROP TABLE of_execute;
SELECT name, from_sql, parameter_types FROM pg_prepared_statements WHERE from_sql ORDER BY name;
BEGIN;
PREPARE three AS SELECT 3 AS three;
SELECT 1 / 0;
ROLLBACK;
EXECUTE three;
BEGIN;
DEALLOCATE three;
ROLLBACK;
EXECUTE three;
DEALLOCATE one;
EXECUTE one (1);
DEALLOCATE PREPARE ALL;
EXECUTE "Two" (2, 'gone');

-- Cursors
DECLARE outside CURSOR FOR SELECT 1;
DECLARE held CURSOR WITH HOLD FOR SELECT n FROM generate_series(1, 10) n;
FETCH 2 FROM held;
FETCH FORWARD 3 FROM held;
SELECT name, is_holdable FROM pg_cursors;
MOVE 2 IN held;
FETCH held;
BEGIN;
DECLARE inside SCROLL CURSOR FOR SELECT n FROM generate_series(1, 10) n;
FETCH LAST FROM inside;
FETCH BACKWARD 2 FROM inside;
DECLARE also_held CURSOR WITH HOLD FOR SELECT 'also held' AS text;
COMMIT;
FETCH inside;
FETCH also_held;
CLOSE also_held;
FETCH ALL FROM held;
CLOSE ALL;
FETCH held;

-- Temporary things
CREATE TEMP TABLE mine (n int);
INSERT INTO mine VALUES (1), (2);
SELECT sum(n) FROM mine;
CREATE TEMP VIEW mine_too AS SELECT n * 2 AS n FROM mine;
CREATE TEMP SEQUENCE mine_as_well;
SELECT nextval('mine_as_well'), nextval('mine_as_well'), currval('mine_as_well');
CREATE FUNCTION pg_temp.twice(int) RETURNS int LANGUAGE sql AS 'SELECT $1 * 2';
SELECT pg_temp.twice(n) FROM mine_too;
BEGIN;
CREATE TEMP TABLE short (n int) ON COMMIT DROP;
INSERT INTO short VALUES (1);
COMMIT;
SELECT * FROM short;
CREATE TEMP TABLE emptied (n int) ON COMMIT DELETE ROWS;
INSERT INTO emptied VALUES (1);
SELECT count(*) FROM emptied;
SELECT 5 AS n INTO TEMP into_temp;
SELECT * FROM into_temp;
DROP FUNCTION pg_temp.twice;
DROP VIEW mine_too;
DISCARD TEMP;
SELECT * FROM mine;

-- Locks
SELECT pg_advisory_lock(:client), pg_advisory_lock(:client), pg_try_advisory_lock_shared(1, 2);
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid();
SELECT pg_advisory_unlock(:client);
SELECT pg_advisory_unlock(:client);
SELECT pg_advisory_unlock(:client);
BEGIN;
SELECT pg_advisory_xact_lock(:client);
LOCK TABLE :t IN EXCLUSIVE MODE;
SELECT mode FROM pg_locks WHERE pid = pg_backend_pid() AND relation = :'t'::regclass;
ROLLBACK;
LOCK TABLE :t;
SELECT pg_advisory_unlock_all();
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid();

-- Sequences
BEGIN;
INSERT INTO :t (n) VALUES (10), (11);
SELECT lastval() > 0 AS has_last, currval(pg_get_serial_sequence(:'t', 'id')) = lastval() AS same;
COMMIT;
DISCARD SEQUENCES;
SELECT lastval();

-- Constraints, COPY, NOTIFY
BEGIN;
SET CONSTRAINTS ALL DEFERRED;
INSERT INTO :t (n) VALUES (10);
UPDATE :t SET n = 12 WHERE n = 10 AND id = (SELECT max(id) FROM :t);
SET CONSTRAINTS ALL IMMEDIATE;
INSERT INTO :t (n) VALUES (10);
ROLLBACK;
COPY :t (n, text) FROM STDIN;
100	copied
101	\N
\.
COPY (SELECT n, text FROM :t ORDER BY n) TO STDOUT WITH (FORMAT csv, NULL 'none');
NOTIFY nobody, 'listens';
UNLISTEN *;

-- DISCARD
SET work_mem = '1111kB';
SET my.own = 'again';
PREPARE four AS SELECT 4;
DECLARE four CURSOR WITH HOLD FOR SELECT 4;
CREATE TEMP TABLE four (n int);
SELECT pg_advisory_lock(:client);
DISCARD PLANS;
EXECUTE four;
BEGIN;
DISCARD ALL;
ROLLBACK;
SHOW work_mem;
DISCARD ALL;
SHOW work_mem;
SELECT current_setting('my.own', true) = '' AS is_empty;
EXECUTE four;
FETCH four;
SELECT * FROM four;
SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid();
DROP TABLE :t;
