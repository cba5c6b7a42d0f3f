import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "2"
down_revision = "1"
kind = postgresql.ENUM("cash", "card", name="sa_kind")


def upgrade():
    kind.create(op.get_bind())
    op.add_column("sa_accounts", sa.Column("kind", postgresql.ENUM(name="sa_kind", create_type=False), server_default="cash"))
    op.execute("SET LOCAL lock_timeout = '3s'")
    op.create_table(
        "sa_entries",
        sa.Column("id", sa.BigInteger, primary_key=True),
        sa.Column("account", sa.Integer, sa.ForeignKey("sa_accounts.id", deferrable=True, initially="DEFERRED")),
        sa.Column("data", postgresql.JSONB),
    )
    with op.get_context().autocommit_block():
        op.execute("ALTER TYPE sa_kind ADD VALUE 'cheque'")
        op.create_index("sa_entries_account", "sa_entries", ["account"], postgresql_concurrently=True)


def downgrade():
    op.drop_table("sa_entries")
    op.drop_column("sa_accounts", "kind")
    kind.drop(op.get_bind())
