-- Large objects: function calls in a transaction that psql opens by itself.
\set t psql_large_:client
\set file :folder/:t
\set VERBOSITY terse
\o :file
SELECT repeat(md5('large'), 20000);
\o
\lo_import :file
\set object :LASTOID
SELECT length(lo_get(:object)) > 600000;
\set copy :file '.copy'
\lo_export :object :copy
\set compare 'cmp ' :file ' ' :copy ' && echo equal'
\setenv COMPARE :compare
\! eval "$COMPARE"
\lo_unlink :object
\lo_unlink :object
SELECT lo_get(:object);
