\set w random(1, 20)
\set d random(1, 10)
\set carrier random(1, 10)
BEGIN;
WITH oldest AS (SELECT o_id FROM weir_lab.new_order WHERE w_id = :w AND d_id = :d ORDER BY o_id LIMIT 1 FOR UPDATE SKIP LOCKED),
  gone AS (DELETE FROM weir_lab.new_order USING oldest
  WHERE w_id = :w AND d_id = :d AND new_order.o_id = oldest.o_id RETURNING new_order.o_id)
  SELECT coalesce(max(o_id), 0) AS o FROM gone \gset
UPDATE weir_lab.orders SET carrier = :carrier WHERE w_id = :w AND d_id = :d AND o_id = :o;
UPDATE weir_lab.order_line SET delivered = now() WHERE w_id = :w AND d_id = :d AND o_id = :o;
UPDATE weir_lab.customer SET balance = balance + (SELECT coalesce(sum(amount), 0) FROM weir_lab.order_line WHERE w_id = :w AND d_id = :d AND o_id = :o)
  WHERE w_id = :w AND d_id = :d AND c_id = (SELECT c_id FROM weir_lab.orders WHERE w_id = :w AND d_id = :d AND o_id = :o);
COMMIT;
