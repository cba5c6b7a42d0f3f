-- COPY in both directions: from the script, from and to files, to programs; with errors; in and outside transactions.
\set t psql_copy_:client
\set file :folder/:t
\set VERBOSITY terse
DROP TABLE IF EXISTS :t;
CREATE TABLE :t (id int PRIMARY KEY, name text);
COPY :t FROM STDIN;
1	one
2	\N
3	three
\.
COPY :t FROM STDIN (FORMAT csv);
4,"four, with a comma"
not a number,five
6,six
\.
COPY :t FROM STDIN;
1	twice
\.
COPY :t TO STDOUT (FORMAT csv, HEADER);
INSERT INTO :t SELECT n, repeat(md5(n::text), 4) FROM generate_series(10, 5000) n;
\o :file
COPY (SELECT * FROM :t ORDER BY id) TO STDOUT;
\o
BEGIN;
DELETE FROM :t;
\set from '\\copy ' :t ' FROM ' :file
:from
SELECT count(*), sum(id), md5(string_agg(name, ',' ORDER BY id)) FROM :t;
COMMIT;
BEGIN;
COPY :t FROM STDIN;
1	twice
\.
SELECT 'refused: the transaction has failed';
ROLLBACK;
COPY (SELECT 1 / (3 - n) FROM generate_series(1, 5) n) TO STDOUT;
\copy (SELECT n, n * n FROM generate_series(1, 4) n) TO STDOUT WITH (FORMAT csv)
\copy (SELECT n FROM generate_series(1, 100000) n) TO PROGRAM 'md5sum'
COPY (SELECT 1) TO STDOUT\; SELECT 2 AS after_copy\; COPY (SELECT 3) TO STDOUT;
SELECT count(*) FROM :t;
DROP TABLE :t;
