\set w random(1, 20)
\set d random(1, 10)
\set c random(1, 100)
BEGIN;
SELECT balance FROM weir_lab.customer WHERE w_id = :w AND d_id = :d AND c_id = :c;
SELECT coalesce(max(o_id), 0) AS o FROM weir_lab.orders WHERE w_id = :w AND d_id = :d AND c_id = :c \gset
SELECT i_id, quantity, amount, delivered FROM weir_lab.order_line WHERE w_id = :w AND d_id = :d AND o_id = :o;
COMMIT;
