-- Named prepared statements and pipelines.
\set VERBOSITY terse
SELECT $1::int + 1 AS named \parse psql_named
\bind_named psql_named 41 \g
\bind_named psql_named 42 \g
\close_prepared psql_named
\startpipeline
SELECT $1::int AS pipelined \bind 1 \sendpipeline
SELECT $1::int AS pipelined \bind 2 \sendpipeline
\syncpipeline
SELECT 1 / $1::int AS pipelined \bind 0 \sendpipeline
SELECT $1::int AS skipped \bind 3 \sendpipeline
\endpipeline
SELECT 'after the pipeline';
