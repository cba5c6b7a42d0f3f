\set aid random(1, 100000)
SELECT abalance FROM weir_lab.accounts WHERE aid = :aid;
