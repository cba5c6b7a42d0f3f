-- What conversations stand on. Both sides have a copy of this database, so that object ids are the same.
CREATE SCHEMA diff;
CREATE SCHEMA diff_a;
CREATE SCHEMA diff_b;

CREATE TABLE diff.notes (owner int, k int, v text, PRIMARY KEY (owner, k));
CREATE TABLE diff.ledger (id bigserial PRIMARY KEY, owner int, v text);
CREATE SEQUENCE diff.counter;

-- Which one is meant depends on search_path, and so does the type of its column.
CREATE TABLE public.place AS SELECT 'public'::text AS v;
CREATE TABLE diff_a.place AS SELECT 'a'::text AS v;
CREATE TABLE diff_b.place AS SELECT 2::int AS v;
CREATE TABLE public.spot AS SELECT 'public'::text AS v;
CREATE TABLE diff_a.spot AS SELECT 'a'::text AS v;
CREATE TABLE diff_b.spot AS SELECT 'b'::text AS v;

-- Functions that change the session, directly and through one another.
CREATE FUNCTION diff.tag(v text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN set_config('app.tenant', v, false);
END $$;
CREATE FUNCTION diff.tag_in_sql(v text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('app.tenant', v, false) $$;
CREATE FUNCTION diff.tag_for_now(v text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN set_config('app.tenant', v, true);
END $$;
CREATE FUNCTION diff.outer_tag(v text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    RETURN diff.tag(v || '!');
END $$;
CREATE FUNCTION diff.outermost_tag(v text) RETURNS text LANGUAGE sql AS $$ SELECT diff.outer_tag(v) $$;
CREATE FUNCTION diff.tag_dynamically(v text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE 'S' || 'ET app.user = ' || quote_literal(v);
    RETURN v;
END $$;
CREATE FUNCTION diff.tag_and_fail(v text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant', v, false);
    RAISE EXCEPTION 'no %', v;
END $$;
CREATE FUNCTION diff.tag_and_recover(v text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant', v, false);
    BEGIN
        PERFORM set_config('app.tenant', 'inner ' || v, false);
        RAISE EXCEPTION 'no %', v;
    EXCEPTION WHEN raise_exception THEN
        NULL;
    END;
    RETURN current_setting('app.tenant');
END $$;
CREATE FUNCTION diff.memory(v text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('work_mem', v, false);
    RETURN v;
END $$;
CREATE FUNCTION diff.memory_within() RETURNS text LANGUAGE plpgsql SET work_mem = '7MB' AS $$
BEGIN
    RETURN current_setting('work_mem');
END $$;
CREATE FUNCTION diff.path(v text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET search_path = %I, public', v);
    RETURN v;
END $$;
CREATE FUNCTION diff.become(v text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET ROLE %I', v);
    RETURN v;
END $$;
CREATE FUNCTION diff.lock(k bigint) RETURNS void LANGUAGE sql AS $$ SELECT pg_advisory_lock(k) $$;
CREATE FUNCTION diff.make_temporary(v text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('CREATE TEMP TABLE %I (i int)', v);
END $$;
CREATE FUNCTION diff.make_statement(v text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('PREPARE %I AS SELECT 42 AS made', v);
END $$;
CREATE PROCEDURE diff.tag_in_parts(v text) LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.tenant', v || ' kept', false);
    COMMIT;
    PERFORM set_config('app.tenant', v || ' lost', false);
    ROLLBACK;
END $$;

-- What reaches them without their names in the statement.
CREATE TABLE diff.audited (owner int, v text);
CREATE FUNCTION diff.audit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('app.note', NEW.v, false);
    RETURN NEW;
END $$;
CREATE TRIGGER audit BEFORE INSERT ON diff.audited FOR EACH ROW EXECUTE FUNCTION diff.audit();
CREATE TABLE diff.audited_late (owner int, v text);
CREATE CONSTRAINT TRIGGER audit AFTER INSERT ON diff.audited_late DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION diff.audit();
CREATE VIEW diff.tagging AS SELECT diff.tag('from a view') AS v;
CREATE VIEW diff.audited_view AS SELECT owner, v FROM diff.audited;
CREATE TABLE diff.defaulting (owner int, v text DEFAULT diff.tag('from a default'));
CREATE FUNCTION diff.tag_both(a text, b text) RETURNS text LANGUAGE sql AS $$ SELECT set_config('app.user', a || b, false) $$;
CREATE OPERATOR diff.<+> (LEFTARG = text, RIGHTARG = text, FUNCTION = diff.tag_both);
CREATE FUNCTION diff.is_tagged(v text) RETURNS boolean LANGUAGE sql AS $$ SELECT set_config('app.note', v, false) IS NOT NULL $$;
CREATE DOMAIN diff.tagged AS text CHECK (diff.is_tagged(VALUE));
CREATE TYPE diff.label AS (v text);
CREATE FUNCTION diff.to_label(v text) RETURNS diff.label LANGUAGE sql AS $$ SELECT ROW(set_config('app.user', v, false))::diff.label $$;
CREATE CAST (text AS diff.label) WITH FUNCTION diff.to_label(text);

GRANT USAGE, CREATE ON SCHEMA diff, diff_a, diff_b, public TO PUBLIC;
GRANT ALL ON ALL TABLES IN SCHEMA diff, diff_a, diff_b, public TO PUBLIC;
GRANT ALL ON ALL SEQUENCES IN SCHEMA diff TO PUBLIC;

-- A session's state, in one query whose text gives nothing away. PostgreSQL cannot forget the name of a custom parameter: '' is as good as NULL.
CREATE VIEW diff.fingerprint AS
    SELECT 'setting' AS kind, name, current_setting(name) AS value
    FROM unnest(ARRAY['application_name', 'DateStyle', 'TimeZone', 'IntervalStyle', 'client_encoding', 'standard_conforming_strings',
        'work_mem', 'search_path', 'statement_timeout', 'lock_timeout', 'enable_seqscan', 'enable_hashjoin', 'extra_float_digits', 'bytea_output',
        'random_page_cost', 'client_min_messages', 'default_transaction_isolation', 'default_transaction_read_only',
        'default_transaction_deferrable', 'transaction_isolation', 'transaction_read_only', 'role', 'session_replication_role',
        'session_authorization', 'is_superuser', 'check_function_bodies', 'row_security', 'idle_in_transaction_session_timeout']) AS name
    UNION ALL
    SELECT 'custom', name, coalesce(current_setting(name, true), '')
    FROM unnest(ARRAY['app.tenant', 'app.user', 'app.note', 'my.own']) AS name
    UNION ALL SELECT 'user', 'current', current_user::text
    UNION ALL SELECT 'user', 'session', session_user::text
    UNION ALL
    SELECT 'lock', classid || '/' || objid || '/' || objsubid, mode FROM pg_lock_status() WHERE locktype = 'advisory' AND pid = pg_backend_pid()
    UNION ALL
    SELECT 'temporary', relname::text, relkind::text FROM pg_class WHERE pg_my_temp_schema() <> 0 AND relnamespace = pg_my_temp_schema()
    UNION ALL
    SELECT 'temporary', proname::text, 'f' FROM pg_proc WHERE pg_my_temp_schema() <> 0 AND pronamespace = pg_my_temp_schema()
    UNION ALL
    SELECT 'cursor', name, '' FROM pg_cursor() WHERE is_holdable
    UNION ALL
    SELECT 'prepared', name, parameter_types::text FROM pg_prepared_statement() WHERE from_sql;
GRANT SELECT ON diff.fingerprint TO PUBLIC;

-- Everything that conversations write is gone, sequences begin again.
CREATE PROCEDURE diff.begin_again() LANGUAGE plpgsql AS $$
DECLARE
    made regprocedure;
BEGIN
    FOR made IN SELECT oid FROM pg_proc WHERE pronamespace = 'diff_a'::regnamespace LOOP
        EXECUTE 'DROP FUNCTION ' || made;
    END LOOP;
    DELETE FROM diff.notes;
    DELETE FROM diff.ledger;
    DELETE FROM diff.audited;
    DELETE FROM diff.audited_late;
    DELETE FROM diff.defaulting;
    PERFORM setval('diff.counter', 1, false), setval('diff.ledger_id_seq', 1, false);
END $$;
