INSERT INTO runs VALUES (5);
SELECT 1 / ${divisor};
