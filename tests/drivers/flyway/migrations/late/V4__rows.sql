INSERT INTO runs VALUES (4);
SELECT pg_sleep(0.2);
