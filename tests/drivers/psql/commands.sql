-- psql's own commands: description, variables, cursors, generated statements.
\set t psql_commands_:client
\set VERBOSITY terse
DROP TABLE IF EXISTS :t;
CREATE TABLE :t (id int PRIMARY KEY, kind text CHECK (kind <> ''), amount numeric(8,2) DEFAULT 0);
CREATE INDEX ON :t (kind);
INSERT INTO :t SELECT n, chr(97 + n % 3), n * 1.5 FROM generate_series(1, 300) n;
\d :t
SELECT id, kind AS "a kind", amount * 2, now() FROM :t \gdesc
SELECT no_column FROM :t \gdesc
\gdesc
SELECT count(*) AS count, max(amount) AS max FROM :t \gset found_
\echo :found_count :found_max
SELECT format('SELECT %s AS generated', n) FROM generate_series(1, 5) n \gexec
SELECT id % 2 AS odd, kind, count(*) FROM :t GROUP BY 1, 2 ORDER BY 1, 2 \crosstabview odd kind
\set FETCH_COUNT 7
SELECT id, amount FROM :t WHERE id <= 40 ORDER BY id;
SELECT 10 / (20 - id) FROM :t WHERE id BETWEEN 1 AND 30 ORDER BY id;
\unset FETCH_COUNT
SELECT * FROM :t WHERE id = 7 \gx
SELECT id FROM :t WHERE id < 4 ORDER BY id \g (format=csv)
BEGIN;
DECLARE c CURSOR FOR SELECT id FROM :t ORDER BY id;
FETCH 3 FROM c;
MOVE 10 IN c;
FETCH 3 FROM c;
CLOSE c;
COMMIT;
DROP TABLE :t;
