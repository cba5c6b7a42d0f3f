-- What the server reports is the client's own, whichever server connection serves it.
\set VERBOSITY terse
SET TimeZone = 'Asia/Kathmandu';
SELECT timestamptz '2024-02-29 12:00+00';
SET DateStyle = 'German, DMY';
SELECT timestamptz '2024-02-29 12:00+00', date '29.02.2024';
SET IntervalStyle = 'postgres_verbose';
SELECT interval '1 day 2 hours';
\encoding LATIN1
SHOW client_encoding;
SELECT length(convert_to(chr(228), 'LATIN1')), chr(228) = U&'\00e4';
SELECT chr(8364);
\encoding UTF8
SELECT chr(8364);
SET application_name = 'psql of a driver test';
SHOW application_name;
BEGIN;
SET LOCAL TimeZone = 'UTC';
SELECT timestamptz '2024-02-29 12:00+00';
COMMIT;
SELECT timestamptz '2024-02-29 12:00+00';
BEGIN;
SET TimeZone = 'America/Caracas';
SELECT timestamptz '2024-02-29 12:00+00';
ROLLBACK;
SELECT timestamptz '2024-02-29 12:00+00';
SELECT pg_sleep(0.01);
SHOW DateStyle;
SHOW IntervalStyle;
RESET TimeZone;
RESET ALL;
SHOW DateStyle;
SHOW IntervalStyle;
SET TimeZone = 'Nowhere/Never';
DISCARD ALL;
