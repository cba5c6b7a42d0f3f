"""Alembic's environment: migrations run on the connection that the scenario hands over."""

from alembic import context

connection = context.config.attributes["connection"]
context.configure(connection=connection, transaction_per_migration=True, version_table="sa_version")
with context.begin_transaction():
    context.run_migrations()
