-- The extended query protocol.
\set VERBOSITY terse
SELECT $1::int + $2::int AS bound \bind 1 2 \g
SELECT $1::int AS bound \bind 'not a number' \g
SELECT $1::text || $2 AS bound \bind a b \g
BEGIN \bind \g
SELECT 1 / $1::int \bind 0 \g
SELECT $1::int \bind 1 \g
ROLLBACK \bind \g
SELECT $1::int \bind 2 \g
