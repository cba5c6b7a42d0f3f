\set aid random(1, 100000)
\set bid random(1, 20)
\set tid random(1, 200)
\set delta random(-5000, 5000)
BEGIN;
UPDATE weir_lab.accounts SET abalance = abalance + :delta WHERE aid = :aid;
SELECT abalance FROM weir_lab.accounts WHERE aid = :aid;
UPDATE weir_lab.tellers SET tbalance = tbalance + :delta WHERE tid = :tid;
UPDATE weir_lab.branches SET bbalance = bbalance + :delta WHERE bid = :bid;
INSERT INTO weir_lab.history (tid, bid, aid, delta, mtime) VALUES (:tid, :bid, :aid, :delta, now());
COMMIT;
