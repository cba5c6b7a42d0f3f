\set w random(1, 20)
\set d random(1, 10)
\set threshold random(10, 20)
BEGIN;
SELECT next_o_id AS next FROM weir_lab.district WHERE w_id = :w AND d_id = :d \gset
SELECT count(DISTINCT s.i_id) FROM weir_lab.order_line l JOIN weir_lab.stock s ON s.w_id = l.w_id AND s.i_id = l.i_id
  WHERE l.w_id = :w AND l.d_id = :d AND l.o_id >= :next - 20 AND s.quantity < :threshold;
COMMIT;
