\set w random(1, 20)
\set d random(1, 10)
\set c random(1, 100)
\set amount random(1, 5000)
BEGIN;
UPDATE weir_lab.warehouse SET ytd = ytd + :amount WHERE w_id = :w;
UPDATE weir_lab.district SET ytd = ytd + :amount WHERE w_id = :w AND d_id = :d;
UPDATE weir_lab.customer SET balance = balance - :amount WHERE w_id = :w AND d_id = :d AND c_id = :c;
INSERT INTO weir_lab.payment (w_id, d_id, c_id, amount, paid) VALUES (:w, :d, :c, :amount, now());
COMMIT;
