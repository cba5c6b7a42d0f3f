\set w random(1, 20)
\set d random(1, 10)
\set c random(1, 100)
\set lines random(5, 15)
\set first random(1, 1000)
BEGIN;
SELECT balance FROM weir_lab.customer WHERE w_id = :w AND d_id = :d AND c_id = :c;
UPDATE weir_lab.district SET next_o_id = next_o_id + 1 WHERE w_id = :w AND d_id = :d RETURNING next_o_id - 1 AS o \gset
INSERT INTO weir_lab.orders (w_id, d_id, o_id, c_id, line_count) VALUES (:w, :d, :o, :c, :lines);
INSERT INTO weir_lab.new_order (w_id, d_id, o_id) VALUES (:w, :d, :o);
-- Rows of the stock are locked in one order: two new orders cannot wait for each other.
WITH chosen AS (SELECT i_id FROM weir_lab.stock
  WHERE w_id = :w AND i_id IN (SELECT 1 + (:first + 61 * n) % 1000 FROM generate_series(1, :lines) AS n) ORDER BY i_id FOR UPDATE)
  UPDATE weir_lab.stock SET quantity = CASE WHEN quantity > 15 THEN quantity - 5 ELSE quantity + 86 END
  FROM chosen WHERE stock.w_id = :w AND stock.i_id = chosen.i_id;
INSERT INTO weir_lab.order_line (w_id, d_id, o_id, line, i_id, quantity, amount)
  SELECT :w, :d, :o, n, i_id, 5, 5 * price FROM generate_series(1, :lines) AS n JOIN weir_lab.item ON i_id = 1 + (:first + 61 * n) % 1000;
COMMIT;
