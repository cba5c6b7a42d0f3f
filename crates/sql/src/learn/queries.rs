//! The questions to the catalogue, for PostgreSQL 14 to 18 and the simple protocol. Between [`BEGIN`] and [`END`] the answers are of one moment
//! and names mean PostgreSQL's own objects.
//!
//! Oids below 16384 are PostgreSQL's own (manual: "Initial Catalog Data", "OID Assignment"). Numbers of classes are the oids of the catalogues
//! themselves, which never change: 1247 pg_type, 1255 pg_proc, 1259 pg_class, 2604 pg_attrdef, 2605 pg_cast, 2606 pg_constraint, 2612 pg_language,
//! 2615 pg_namespace, 2616 pg_opclass, 2617 pg_operator, 2618 pg_rewrite, 2620 pg_trigger, 3079 pg_extension, 3256 pg_policy, 3466 pg_event_trigger.

/// A question, and where its rows belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Query {
    pub part: Part,
    pub sql: &'static str,
}

/// A part of the [`Catalog`](super::Catalog).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    Functions,
    Objects,
    Dependencies,
}

impl Part {
    /// The query whose rows have so many columns.
    pub fn with_columns(count: usize) -> Option<Part> {
        match count {
            7 => Some(Part::Functions),
            5 => Some(Part::Objects),
            4 => Some(Part::Dependencies),
            _ => None,
        }
    }
}

/// Before the queries. Names come as UTF-8.
pub const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
    SET LOCAL search_path TO pg_catalog; SET LOCAL client_encoding TO 'UTF8'; SET LOCAL standard_conforming_strings TO on; \
    SET LOCAL quote_all_identifiers TO off";

/// The part of [`BEGIN`] that sets parameters for the transaction.
pub const SETTINGS: &str = "SET LOCAL search_path TO pg_catalog; SET LOCAL client_encoding TO 'UTF8'; \
    SET LOCAL standard_conforming_strings TO on; SET LOCAL quote_all_identifiers TO off";

/// After them.
pub const END: &str = "COMMIT";

pub const QUERIES: [Query; 3] = [
    Query {
        part: Part::Functions,
        sql: FUNCTIONS,
    },
    Query {
        part: Part::Objects,
        sql: OBJECTS,
    },
    Query {
        part: Part::Dependencies,
        sql: DEPENDENCIES,
    },
];

/// oid, schema, name, language, kind, settings, body.
const FUNCTIONS: &str = "\
SELECT p.oid, n.nspname, p.proname, l.lanname, p.prokind,
       coalesce(pg_catalog.array_to_string(p.proconfig, ' '), ''),
       pg_catalog.concat_ws(E'\\n;', coalesce(pg_catalog.pg_get_function_sqlbody(p.oid), p.prosrc),
                            pg_catalog.pg_get_expr(p.proargdefaults, 0))
  FROM pg_catalog.pg_proc p
  JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  JOIN pg_catalog.pg_language l ON l.oid = p.prolang
 WHERE p.oid >= 16384";

/// class, oid, reach, name, text. Objects without a name and a text of their own are only in the dependencies.
const OBJECTS: &str = "\
SELECT 1259, c.oid, 'name', c.relname::text, ''
  FROM pg_catalog.pg_class c
 WHERE c.oid >= 16384 AND c.relkind IN ('r', 'v', 'm', 'f', 'p', 'S', 'c') AND c.relpersistence <> 't'
UNION ALL
SELECT 1247, t.oid, 'name', t.typname::text, coalesce(t.typdefault, '')
  FROM pg_catalog.pg_type t
 WHERE t.oid >= 16384 AND t.typtype <> 'c' AND t.typcategory <> 'A'
UNION ALL
SELECT 2617, o.oid, CASE WHEN o.oprleft < 16384 AND o.oprright < 16384 THEN 'name' ELSE 'owner' END,
       o.oprname::text, o.oprcode::pg_catalog.text
  FROM pg_catalog.pg_operator o
 WHERE o.oid >= 16384
UNION ALL
SELECT 2605, c.oid, CASE WHEN c.castsource < 16384 AND c.casttarget < 16384 THEN 'everywhere' ELSE 'owner' END,
       '', c.castfunc::pg_catalog.regproc::pg_catalog.text
  FROM pg_catalog.pg_cast c
 WHERE c.oid >= 16384
UNION ALL
SELECT 1255, a.aggfnoid::pg_catalog.oid, 'owner', '',
       pg_catalog.concat_ws(' ', a.aggtransfn, a.aggfinalfn, a.aggcombinefn, a.aggserialfn, a.aggdeserialfn,
                            a.aggmtransfn, a.aggminvtransfn, a.aggmfinalfn)
  FROM pg_catalog.pg_aggregate a
 WHERE a.aggfnoid::pg_catalog.oid >= 16384
UNION ALL
SELECT 2618, r.oid, 'owner', '', pg_catalog.pg_get_ruledef(r.oid)
  FROM pg_catalog.pg_rewrite r
 WHERE r.oid >= 16384
UNION ALL
SELECT 2620, t.oid, 'owner', '', pg_catalog.pg_get_triggerdef(t.oid)
  FROM pg_catalog.pg_trigger t
 WHERE t.tgqual IS NOT NULL
UNION ALL
SELECT 2604, d.oid, 'owner', '', pg_catalog.pg_get_expr(d.adbin, d.adrelid)
  FROM pg_catalog.pg_attrdef d
UNION ALL
SELECT 2606, c.oid, 'owner', '', pg_catalog.pg_get_constraintdef(c.oid)
  FROM pg_catalog.pg_constraint c
 WHERE c.oid >= 16384 AND c.contype IN ('c', 'x')
UNION ALL
SELECT 3256, p.oid, 'owner', '',
       pg_catalog.concat_ws(' ', pg_catalog.pg_get_expr(p.polqual, p.polrelid), pg_catalog.pg_get_expr(p.polwithcheck, p.polrelid))
  FROM pg_catalog.pg_policy p
UNION ALL
SELECT 1259, i.indexrelid, 'owner', '', pg_catalog.pg_get_indexdef(i.indexrelid)
  FROM pg_catalog.pg_index i
 WHERE i.indexrelid >= 16384 AND (i.indexprs IS NOT NULL OR i.indpred IS NOT NULL)
UNION ALL
SELECT 1259, p.partrelid, 'owner', '', pg_catalog.pg_get_partkeydef(p.partrelid)
  FROM pg_catalog.pg_partitioned_table p
 WHERE p.partexprs IS NOT NULL
UNION ALL
SELECT 3466, e.oid, 'definition', '', ''
  FROM pg_catalog.pg_event_trigger e
 WHERE e.evtenabled <> 'D' AND e.evtevent <> 'login'";

/// class, oid, class and oid of what it uses. What belongs to an object (its triggers, rules, defaults, constraints) is used by it. Of foreign keys
/// only those are there by which a change of one relation changes another.
const DEPENDENCIES: &str = "\
SELECT d.classid, d.objid, d.refclassid, d.refobjid
  FROM pg_catalog.pg_depend d
 WHERE d.objid >= 16384 AND d.refobjid >= 16384 AND d.deptype <> 'e' AND d.refclassid NOT IN (2612, 2615, 3079)
   AND NOT (d.classid = 2606 AND EXISTS (SELECT FROM pg_catalog.pg_constraint c WHERE c.oid = d.objid AND c.contype = 'f'))
UNION ALL
SELECT d.refclassid, d.refobjid, d.classid, d.objid
  FROM pg_catalog.pg_depend d
 WHERE d.objid >= 16384 AND d.refobjid >= 16384 AND d.deptype IN ('a', 'i', 'P', 'S') AND d.refclassid NOT IN (2612, 2615, 3079)
UNION ALL
SELECT 1259, c.confrelid, 1259, c.conrelid
  FROM pg_catalog.pg_constraint c
 WHERE c.contype = 'f' AND (c.confdeltype IN ('c', 'n', 'd') OR c.confupdtype IN ('c', 'n', 'd'))
UNION ALL
SELECT 1259, i.inhparent, 1259, i.inhrelid
  FROM pg_catalog.pg_inherits i
UNION ALL
SELECT 1247, t.type, 2605, c.oid
  FROM pg_catalog.pg_cast c, LATERAL (VALUES (c.castsource), (c.casttarget)) t (type)
 WHERE c.oid >= 16384 AND t.type >= 16384
UNION ALL
SELECT 1247, t.type, 2617, o.oid
  FROM pg_catalog.pg_operator o, LATERAL (VALUES (o.oprleft), (o.oprright)) t (type)
 WHERE o.oid >= 16384 AND t.type >= 16384
UNION ALL
SELECT 1247, o.opcintype, 2616, o.oid
  FROM pg_catalog.pg_opclass o
 WHERE o.oid >= 16384 AND o.opcintype >= 16384";

/// One row, one column: a text that differs when the answers to [`QUERIES`] may. Reads each catalogue once and writes no definitions.
/// Temporary relations do not change it; a TRUNCATE does.
pub const FINGERPRINT: &str = "\
SELECT pg_catalog.string_agg(s.count || ':' || s.digest, ' ' ORDER BY s.class)
  FROM (SELECT v.class, pg_catalog.count(*)::pg_catalog.text AS count,
               coalesce(pg_catalog.sum(pg_catalog.hashint8extended(v.oid::pg_catalog.int8, v.version)), 0)::pg_catalog.text AS digest
          FROM (SELECT 1255 AS class, oid, xmin::pg_catalog.text::pg_catalog.int8 AS version FROM pg_catalog.pg_proc
                UNION ALL
                SELECT 1259, oid, xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_class
                 WHERE relkind IN ('r', 'v', 'm', 'f', 'p', 'S', 'c') AND relpersistence <> 't'
                UNION ALL
                SELECT 1247, t.oid, t.xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_type t
                 WHERE t.typtype <> 'c' AND t.typcategory <> 'A'
                UNION ALL
                SELECT 2604, d.oid, d.xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_attrdef d
                  JOIN pg_catalog.pg_class c ON c.oid = d.adrelid AND c.relpersistence <> 't'
                UNION ALL
                SELECT 2605, oid, xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_cast
                UNION ALL
                SELECT 2606, n.oid, n.xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_constraint n
                  LEFT JOIN pg_catalog.pg_class c ON c.oid = n.conrelid
                 WHERE c.relpersistence IS DISTINCT FROM 't'
                UNION ALL
                SELECT 2611, inhrelid, inhparent::pg_catalog.int8 FROM pg_catalog.pg_inherits
                UNION ALL
                SELECT 2616, oid, xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_opclass
                UNION ALL
                SELECT 2617, oid, xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_operator
                UNION ALL
                SELECT 2618, r.oid, r.xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_rewrite r
                  JOIN pg_catalog.pg_class c ON c.oid = r.ev_class AND c.relpersistence <> 't'
                UNION ALL
                SELECT 2620, t.oid, t.xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_trigger t
                  JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid AND c.relpersistence <> 't'
                UNION ALL
                SELECT 3256, oid, xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_policy
                UNION ALL
                SELECT 3466, oid, xmin::pg_catalog.text::pg_catalog.int8 FROM pg_catalog.pg_event_trigger) v
         WHERE v.oid >= 16384
         GROUP BY v.class) s";
