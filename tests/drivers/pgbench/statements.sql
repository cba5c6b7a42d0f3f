-- Statements that look alike for clients that do not: a wrong one, or a wrong answer, ends the client by a division by zero.
\set n random(1, 1000)
SELECT :n::int + :client_id AS sum \gset
\set check 1 / (case when :sum = :n + :client_id then 1 else 0 end)
SELECT :n::bigint * 2 AS product, repeat('x', :n) AS text \gset
\set check 1 / (case when :product = :n * 2 then 1 else 0 end)
SELECT count(*) AS count FROM generate_series(1, :n::int) \gset
\set check 1 / (case when :count = :n then 1 else 0 end)
