-- Something of every kind that pg_dump writes. Enough rows that parallel jobs overlap.
CREATE SCHEMA shop;
COMMENT ON SCHEMA shop IS 'it''s a schema';
CREATE SCHEMA "Odd; Name";
CREATE TYPE shop.mood AS ENUM ('sad', 'ok', 'happy');
CREATE TYPE shop.point3 AS (x int, y int, z int);
CREATE DOMAIN shop.positive AS int CHECK (VALUE > 0);
CREATE SEQUENCE shop.numbers START 1000 INCREMENT 7;
SELECT nextval('shop.numbers'), nextval('shop.numbers');
CREATE TABLE shop.customer (
    id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL UNIQUE,
    mood shop.mood DEFAULT 'ok',
    place shop.point3,
    born timestamptz,
    share float8,
    rest interval,
    data bytea
);
COMMENT ON COLUMN shop.customer.name IS E'a name\nof two lines';
CREATE TABLE shop.purchase (
    id bigserial PRIMARY KEY,
    customer int REFERENCES shop.customer ON DELETE CASCADE,
    pieces shop.positive,
    total numeric GENERATED ALWAYS AS (pieces * 1.25) STORED,
    note jsonb
);
CREATE INDEX ON shop.purchase (customer) WHERE pieces > 3;
CREATE TABLE shop.log (at date, what text) PARTITION BY RANGE (at);
CREATE TABLE shop.log_1 PARTITION OF shop.log FOR VALUES FROM ('2024-01-01') TO ('2025-01-01');
CREATE TABLE shop.log_rest PARTITION OF shop.log DEFAULT;
CREATE TABLE "Odd; Name"."Table ""1""" ("Column 'a'" int, "select" text);
CREATE FUNCTION shop.count_up() RETURNS trigger LANGUAGE plpgsql SET search_path = shop AS $$
BEGIN
    PERFORM set_config('shop.seen', NEW.id::text, false);
    INSERT INTO log VALUES ('2024-05-05', 'purchase ' || NEW.id);
    RETURN NEW;
END $$;
CREATE FUNCTION shop.tenant() RETURNS text LANGUAGE sql STABLE AS $$ SELECT current_setting('app.tenant', true) $$;
CREATE PROCEDURE shop.tidy() LANGUAGE sql AS 'DELETE FROM shop.log WHERE what IS NULL';
CREATE AGGREGATE shop.product (numeric) (SFUNC = numeric_mul, STYPE = numeric, INITCOND = 1);
CREATE OPERATOR shop.=== (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq);
CREATE TRIGGER count_up AFTER INSERT ON shop.purchase FOR EACH ROW EXECUTE FUNCTION shop.count_up();
CREATE VIEW shop.happy WITH (security_barrier) AS SELECT id, name FROM shop.customer WHERE mood = 'happy';
CREATE RULE no_delete AS ON DELETE TO shop.happy DO INSTEAD NOTHING;
ALTER TABLE shop.customer ENABLE ROW LEVEL SECURITY;
CREATE POLICY own ON shop.customer USING (shop.tenant() IS NULL OR name LIKE shop.tenant() || '%');
CREATE STATISTICS shop.related ON customer, pieces FROM shop.purchase;
ALTER TABLE shop.customer CLUSTER ON customer_name_key;
INSERT INTO shop.customer (name, mood, place, born, share, rest, data)
    SELECT 'name ' || n, (enum_range(NULL::shop.mood))[n % 3 + 1], ROW(n, -n, NULL)::shop.point3, timestamptz '2024-02-29 12:00+00' + n * interval '1 hour', n / 3.0::float8, n * interval '1 month 1 hour', decode(md5(n::text), 'hex')
    FROM generate_series(1, 2000) n;
INSERT INTO shop.purchase (customer, pieces, note) SELECT n % 2000 + 1, n % 9 + 1, jsonb_build_object('n', n, 'text', E'tab\t, \\N and ü €') FROM generate_series(1, 4000) n;
INSERT INTO "Odd; Name"."Table ""1""" VALUES (1, 'one'), (NULL, E'\\.'), (3, NULL);
CREATE MATERIALIZED VIEW shop.sums AS SELECT customer, sum(pieces) FROM shop.purchase GROUP BY customer;
SELECT count(lo_from_bytea(50000 + n, decode(repeat(md5(n::text), n * 40), 'hex'))) FROM generate_series(1, 40) n;
COMMENT ON LARGE OBJECT 50001 IS 'the first large object';
SELECT lo_unlink(50013);
GRANT SELECT ON shop.customer TO weir_md5;
GRANT USAGE ON SCHEMA shop TO weir_md5;
ALTER DEFAULT PRIVILEGES IN SCHEMA shop GRANT SELECT ON TABLES TO weir_plain;
