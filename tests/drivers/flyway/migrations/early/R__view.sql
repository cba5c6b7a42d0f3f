CREATE OR REPLACE VIEW seen AS SELECT version, many() FROM runs;
